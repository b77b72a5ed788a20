"""Compile PyTorch models for edge devices and run them. Importing `edgecore` imports neither torch nor numpy."""

from __future__ import annotations

from edgecore.stability import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from edgecore.backend import Backend
    from edgecore.executorch.exir.config import EdgeCompileConfig, ExecutorchBackendConfig
    from edgecore.executorch.exir.program import EdgeProgramManager, to_edge, to_edge_transform_and_lower
    from edgecore.ir.program.lazy_constants import lazy_constant
    from edgecore.pipeline import BundledProgram, MethodTestCase, MethodTestSuite
    from edgecore.pipeline.compile import compile, prepare_qat
    from edgecore.plugin.api import InstalledBackend
    from edgecore.recipe import Recipe, Rule
    from edgecore.runtime import Program, Tensor, load
    from edgecore.runtime.bundled import BundledReport, verify_bundled
    from edgecore.sweeps.run import sweep
    from edgecore.sweeps.search import search

    from . import errors as errors
    from . import format as format
    from . import passes as passes
    from . import plugin as plugin
    from . import runtime as runtime
    from . import sdk as sdk
    from . import sweeps as sweeps

    __version__: str

__all__ = [
    "Backend",
    "BundledProgram",
    "BundledReport",
    "EdgeCompileConfig",
    "EdgeProgramManager",
    "ExecutorchBackendConfig",
    "MethodTestCase",
    "MethodTestSuite",
    "Program",
    "Recipe",
    "Rule",
    "Tensor",
    "backends",
    "compile",
    "lazy_constant",
    "load",
    "prepare_qat",
    "search",
    "sweep",
    "to_edge",
    "to_edge_transform_and_lower",
    "verify_bundled",
]

_MODULES = ("errors", "format", "passes", "plugin", "runtime", "sdk", "sweeps")
"""Submodules that can be used after `import edgecore` alone, as `edgecore.NAME`."""

_MODULE_OF = {
    "Backend": "edgecore.backend",
    "BundledProgram": "edgecore.pipeline",
    "BundledReport": "edgecore.runtime.bundled",
    "EdgeCompileConfig": "edgecore.executorch.exir.config",
    "EdgeProgramManager": "edgecore.executorch.exir.program",
    "ExecutorchBackendConfig": "edgecore.executorch.exir.config",
    "MethodTestCase": "edgecore.pipeline",
    "MethodTestSuite": "edgecore.pipeline",
    "Program": "edgecore.runtime",
    "Recipe": "edgecore.recipe",
    "Rule": "edgecore.recipe",
    "Tensor": "edgecore.runtime",
    "compile": "edgecore.pipeline.compile",
    "lazy_constant": "edgecore.ir.program.lazy_constants",
    "load": "edgecore.runtime",
    "prepare_qat": "edgecore.pipeline.compile",
    "search": "edgecore.sweeps.search",
    "sweep": "edgecore.sweeps.run",
    "to_edge": "edgecore.executorch.exir.program",
    "to_edge_transform_and_lower": "edgecore.executorch.exir.program",
    "verify_bundled": "edgecore.runtime.bundled",
}


_lazy = lazy_names("edgecore", {**_MODULE_OF, **{name: f"edgecore.{name}:" for name in _MODULES}})


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use, so that loading a file does not import the compiler."""
    if name == "__version__":
        from importlib.metadata import version

        return version("edgecore")
    try:
        return _lazy(name)
    except ModuleNotFoundError as error:
        if name not in _MODULE_OF:
            raise
        from edgecore.errors import CompileError

        raise CompileError(
            f"edgecore.{name} needs the Python package {error.name!r}: pip install 'edgecore[compile]'"
        ) from error


def __dir__() -> list[str]:
    """Return the public names, imported or not, for completion in editors."""
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})


def backends(seconds: float = 20) -> list[InstalledBackend]:
    """List the installed backends, each with its state: `ok`, `broken` (and why) or `disabled`.

    Each package is imported in a child process first. A package that hangs or crashes there is reported as broken and is
    not imported in this process. A `RuntimeWarning` is issued for each broken backend.

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
