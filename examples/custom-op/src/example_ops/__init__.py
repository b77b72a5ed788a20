"""The operator `example_ops::multiply_add`. Importing this imports nothing heavy: running a file needs the library only."""

from pathlib import Path

from edgecore.plugin import KernelInfo, hookimpl


@hookimpl
def edgecore_kernels() -> list[KernelInfo]:
    """What the entry point in group `edgecore.kernels` gives."""
    library = Path(__file__).resolve().parent / "libexample_ops.so"
    operators = ["example_ops::multiply_add.out"]
    return [KernelInfo(namespace="example_ops", operators=operators, native_library=lambda: library)]
