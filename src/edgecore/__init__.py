"""Compile PyTorch models for edge devices and run them. Importing `edgecore` imports neither torch nor numpy."""

from __future__ import annotations

from edgecore.stability import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from edgecore.backend import Backend as Backend
    from edgecore.executorch.exir.config import EdgeCompileConfig as EdgeCompileConfig
    from edgecore.executorch.exir.config import ExecutorchBackendConfig as ExecutorchBackendConfig
    from edgecore.executorch.exir.program import EdgeProgramManager as EdgeProgramManager
    from edgecore.executorch.exir.program import to_edge as to_edge
    from edgecore.executorch.exir.program import to_edge_transform_and_lower as to_edge_transform_and_lower
    from edgecore.ir.program.lazy_constants import lazy_constant as lazy_constant
    from edgecore.pipeline import BundledProgram as BundledProgram
    from edgecore.pipeline import MethodTestCase as MethodTestCase
    from edgecore.pipeline import MethodTestSuite as MethodTestSuite
    from edgecore.pipeline.compile import compile as compile
    from edgecore.pipeline.compile import prepare_qat as prepare_qat
    from edgecore.plugin.api import InstalledBackend
    from edgecore.recipe import Recipe as Recipe
    from edgecore.recipe import Rule as Rule
    from edgecore.runtime import Program as Program
    from edgecore.runtime import Tensor as Tensor
    from edgecore.runtime import load as load
    from edgecore.runtime.bundled import BundledReport as BundledReport
    from edgecore.runtime.bundled import verify_bundled as verify_bundled
    from edgecore.sweeps.run import sweep as sweep
    from edgecore.sweeps.search import search as search

    from . import errors as errors
    from . import format as format
    from . import passes as passes
    from . import plugin as plugin
    from . import progress as progress
    from . import runtime as runtime
    from . import sdk as sdk
    from . import sweeps as sweeps

    __version__: str

__all__, _import_public = public_names(
    "edgecore",
    {
        "edgecore.backend": "Backend",
        "edgecore.executorch.exir.config": "EdgeCompileConfig ExecutorchBackendConfig",
        "edgecore.executorch.exir.program": "EdgeProgramManager to_edge to_edge_transform_and_lower",
        "edgecore.ir.program.lazy_constants": "lazy_constant",
        "edgecore.pipeline": "BundledProgram MethodTestCase MethodTestSuite",
        "edgecore.pipeline.compile": "compile prepare_qat",
        "edgecore.recipe": "Recipe Rule",
        "edgecore.runtime": "Program Tensor load",
        "edgecore.runtime.bundled": "BundledReport verify_bundled",
        "edgecore.sweeps.run": "sweep",
        "edgecore.sweeps.search": "search",
    },
)
__all__ += ["backends"]

_MODULES = ("errors", "format", "passes", "plugin", "progress", "runtime", "sdk", "sweeps")
"""Submodules that can be used after `import edgecore` alone, as `edgecore.NAME`."""


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use, so that loading a file does not import the compiler."""
    if name == "__version__":
        from importlib.metadata import version

        return version("edgecore")
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"edgecore.{name}")
    try:
        return _import_public(name)
    except ModuleNotFoundError as error:
        from edgecore.errors import CompileError

        raise CompileError(
            f"edgecore.{name} needs the Python package {error.name!r}: pip install 'edgecore[compile]'"
        ) from error


def __dir__() -> list[str]:
    """Return all public names, including names that are not imported yet, so that editors can complete them."""
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})


def backends(seconds: float = 20) -> list[InstalledBackend]:
    """List the installed backends, each with its state: `ok`, `broken` (with the reason) or `disabled`.

    A child process first imports each package. A package that hangs or crashes there is reported as broken, and this
    process does not import it. A `RuntimeWarning` is issued for each broken backend.

    Args:
        seconds: Time limit for importing one package.

    Returns:
        One `InstalledBackend` for each backend of each package, sorted by backend id.

    Example:
        >>> [(backend.name, backend.state) for backend in edgecore.backends()]
        [('xnnpack', 'ok')]
    """
    from edgecore.plugin.diagnosis import isolated_import

    return isolated_import.backends(seconds)
