"""The operator `example_ops::multiply_add`. Importing this imports nothing heavy: running a file needs the library only."""

from pathlib import Path


def kernels_library() -> str:
    """Where the kernels are: what the entry point in group `edgecore.kernels` names."""
    return str(Path(__file__).resolve().parent / "libexample_ops.so")
