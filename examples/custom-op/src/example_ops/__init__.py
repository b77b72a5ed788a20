"""The operators `example_ops::multiply_add` and `append`.

Running a file imports this module, so it must not import torch.
"""

from pathlib import Path


def kernels_library() -> str:
    """Return the path of the library of kernels. The entry point in pyproject.toml names this function."""
    return str(Path(__file__).resolve().parent / "libexample_ops.so")
