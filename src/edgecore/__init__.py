"""Compiles PyTorch models for edge devices and runs them. Importing this imports nothing heavy."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from edgecore.emit import ExternalConstants
    from edgecore.memory import MemoryPlanningPass
    from edgecore.pipeline import (
        BundledProgram,
        CompiledProgram,
        EdgeProgramManager,
        ExecutorchBackendConfig,
        MethodTestCase,
        MethodTestSuite,
        to_edge,
        to_edge_transform_and_lower,
    )
    from edgecore.plugin.types import InstalledBackend
    from edgecore.quantize import Calibration
    from edgecore.runtime import Model, Tensor
    from edgecore.runtime.bundled import BundledReport, verify_bundled
    from edgecore.target import Backend

    from . import errors as errors
    from . import format as format
    from . import plugin as plugin
    from . import runtime as runtime

    __version__: str

__all__ = [
    "Backend",
    "BundledProgram",
    "BundledReport",
    "EdgeProgramManager",
    "ExecutorchBackendConfig",
    "MethodTestCase",
    "MethodTestSuite",
    "Model",
    "Tensor",
    "backends",
    "compile",
    "load",
    "to_edge",
    "to_edge_transform_and_lower",
    "verify_bundled",
]

_MODULES = ("errors", "format", "plugin", "runtime")
"""Submodules that `import edgecore` alone makes reachable."""

_HOMES = {
    "Backend": "edgecore.target",
    "BundledProgram": "edgecore.pipeline",
    "BundledReport": "edgecore.runtime.bundled",
    "EdgeProgramManager": "edgecore.pipeline",
    "ExecutorchBackendConfig": "edgecore.pipeline",
    "MethodTestCase": "edgecore.pipeline",
    "MethodTestSuite": "edgecore.pipeline",
    "Model": "edgecore.runtime",
    "Tensor": "edgecore.runtime",
    "to_edge": "edgecore.pipeline",
    "to_edge_transform_and_lower": "edgecore.pipeline",
    "verify_bundled": "edgecore.runtime.bundled",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use: loading a file needs none of the compiler."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"edgecore.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("edgecore")
    raise AttributeError(f"module 'edgecore' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, imported or not, for completion."""
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})


def compile(
    model: Any,
    example_inputs: Any = None,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    backends: str | Backend | Sequence[str | Backend] = (),
    dynamic_shapes: Any = None,
    runtime: str = "executorch-1.5",
    memory: str | MemoryPlanningPass | None = None,
    external_data: ExternalConstants = False,
    share_state: bool = False,
    constant_methods: Mapping[str, object] | None = None,
    quantize: str | None = None,
    calibration: Calibration | None = None,
) -> CompiledProgram:
    """Compile a model to a `.pte` program; needs the extra `edgecore[compile]`.

    Args:
        model: A `torch.nn.Module` in eval mode, a `torch.export.ExportedProgram`, or a mapping from method names to
            these; then `example_inputs`, `example_kwargs` and `dynamic_shapes` are mappings too.
        example_inputs: A tuple with one entry per positional argument, or a mapping of keyword arguments, as a tokenizer
            of transformers gives it. Not needed for an `ExportedProgram`.
        example_kwargs: Keyword arguments beside those. When the program runs, they follow the positional ones, in the
            order of the arguments of `forward`.
        backends: Names or `Backend` objects in order of priority, or one alone; each takes what the ones before it left.
        dynamic_shapes: As for `torch.export.export`. Dims need a `max`.
        runtime: `executorch-1.5` (the file also runs on ExecuTorch 1.5) or `edgecore`.
        memory: None (the caller supplies inputs and outputs), `static` (they are planned too), or a planning pass.
        external_data: Which weights go to `.ptd` files, which `save` writes beside the `.pte`: True all of them to one,
            a name all to the file of that name, or a mapping from patterns of qualified names to files:
            `{"*lora*": "adapter", "*": "base"}`. Load them with `edgecore.load("m.pte", data=["base.ptd", ...])`.
        share_state: All methods use one copy of the mutable buffers that have the same qualified name, such as a cache
            that `prefill` fills and `decode` reads; otherwise each method has its own.
        constant_methods: Methods without inputs that return a value, by name: numbers, strings, tensors, lists of these.
        quantize: A recipe of the first backend that has any, such as `int8` or `int4-weights`; None compiles the model as it is.
        calibration: For `quantize`: an iterable of inputs (tuples, or the only tensor), a folder of `.npy` files, or a
            function that calls the model it is given. Of several methods: a mapping by name.

    Raises:
        BackendError: A backend is not installed, broken or disabled.
        CompileError: The model does not export, an operator has no kernel, an option is wrong, a required backend failed.

    Warns:
        FallbackWarning: A backend failed on a part of the model, which the next backend or the kernels run instead.
    """
    try:
        from edgecore.pipeline import compile_model
    except ModuleNotFoundError as error:
        from edgecore.errors import CompileError

        raise CompileError(
            f"compiling needs the Python package {error.name!r}: pip install 'edgecore[compile]'"
        ) from error
    return compile_model(
        model,
        example_inputs,
        example_kwargs=example_kwargs,
        backends=backends,
        dynamic_shapes=dynamic_shapes,
        runtime=runtime,
        memory=memory,
        external_data=external_data,
        share_state=share_state,
        constant_methods=constant_methods,
        quantize=quantize,
        calibration=calibration,
    )


def load(
    path: Any,
    data: Sequence[Any] = (),
    *,
    threads: int | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    providers: Mapping[str, str] | None = None,
    trust: bool = False,
    share_state: bool | None = None,
    limits: Mapping[str, int] | None = None,
    trace: bool = False,
    verify: bool = False,
) -> Model:
    """Load a `.pte`; see `edgecore.runtime.load`. Needs neither torch nor numpy."""
    from edgecore.runtime import load as load_file

    return load_file(
        path, data,
        threads=threads, options=options, providers=providers, trust=trust, share_state=share_state, limits=limits,
        trace=trace, verify=verify,
    )  # fmt: skip


def backends(seconds: float = 20) -> list[InstalledBackend]:
    """The backends that are installed, each with its state: `ok`, `broken` (and why) or `disabled`.

    Imports their packages, in a process of its own first: one that hangs or dies is broken, not this process.

    Args:
        seconds: How long importing a package may take.
    """
    from edgecore.plugin import registry

    return registry.backends(seconds)
