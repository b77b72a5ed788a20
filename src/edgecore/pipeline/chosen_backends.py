"""The argument `backends` of `edgecore.compile`: options, partitioners, and the dtype in which backends compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from edgecore.backend import Backend
from edgecore.errors import CompileError
from edgecore.ir.failures import failures_named
from edgecore.partition import Partitioner
from edgecore.pipeline.preprocess import compiler_of
from edgecore.plugin import BackendCompiler, LowPrecisionCompiler, WeightRoundingCompiler, registry
from edgecore.recipe import problem_message

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from edgecore.pipeline.report import DelegationReport


def backend_list(backends: str | Backend | Sequence[str | Backend]) -> list[Backend]:
    """Convert the argument `backends` to a list of `Backend` objects."""
    items = [backends] if isinstance(backends, (str, Backend)) else backends
    for item in items:
        if not isinstance(item, (str, Backend)):
            raise CompileError(f"backends contains a {type(item).__name__}; use names of backends or Backend objects")
    return [Backend(item) if isinstance(item, str) else item for item in items]


def with_options(backend: Backend, options: Mapping[str, Any]) -> Backend:
    """Return a backend with additional options; the backend's own options take precedence."""
    return Backend(
        backend.name,
        required=backend.required,
        skip_mutable_buffer=backend.skip_mutable_buffer,
        **{**options, **backend.options},
    )


def compilers_of(backends: Sequence[Backend]) -> dict[str, BackendCompiler]:
    """Return the compiler of each backend by the backend's name."""
    return {backend.name: compiler_of(registry.find_by_name(backend.name)) for backend in backends}


def partitioner_of(backend: Backend, runtime: str) -> Partitioner:
    """Make the partitioner of a backend with the backend's options.

    Raises:
        BackendError: The backend is not installed, broken or disabled.
        CompileError: The backend has no option of this name, or rejects a value.
    """
    info = registry.find_by_name(backend.name)
    compiler = compiler_of(info)
    try:
        options = compiler.Options(**backend.options)
    except ValidationError as error:
        problems = "; ".join(_option_problem(problem) for problem in error.errors())
        names = ", ".join(compiler.Options.model_fields) or "none"
        raise CompileError(f"options of backend {backend.name!r}: {problems} (it has: {names})") from error
    with failures_named(f"backend {backend.name!r}"):
        return compiler.partitioner(options, runtime=runtime)


def _option_problem(problem: ErrorDetails) -> str:
    name = ".".join(map(str, problem["loc"]))
    message = problem_message(problem)
    if problem["type"] == "extra_forbidden":
        return f"no option {name!r}"
    # If a problem concerns several options, pydantic names none as its location, but the message names them.
    return f"{name}: {message}" if name else message


def check_required(backends: Sequence[Backend], report: DelegationReport) -> None:
    """Raise `CompileError` if a backend is required and an operator is not delegated."""
    required = [backend.name for backend in backends if backend.required]
    if required and report.left_outside:
        lines = report.outside_nodes()
        count = f"{len(lines)} operators are" if len(lines) > 1 else "1 operator is"
        raise CompileError(f"backend {required[0]!r} is required, but {count} not delegated:\n  " + ";\n  ".join(lines))


def float_dtype(backends: Sequence[Backend], used: Set[str]) -> str:
    """Return "float16" if a backend with an id in `used` computes in float16 without a recipe, else "float32"."""
    for backend in backends:
        info = registry.find_by_name(backend.name)
        compiler = compiler_of(info)
        if isinstance(compiler, LowPrecisionCompiler) and info.backend_id in used:
            with failures_named(f"backend {backend.name!r}"):
                dtype = compiler.computes_in(compiler.Options(**backend.options))
            if dtype != "float32":
                return dtype
    return "float32"


def half_precision_ids(backends: Sequence[Backend], used: Set[str], recipe_dtype: str) -> set[str]:
    """Return the ids among `used` of the backends that compute in float16, not only store weights in float16.

    `recipe_dtype` is the dtype in which the backends compute because of the recipes.
    """
    half = {name for name in used if recipe_dtype == "float16" or float_dtype(backends, {name}) != "float32"}
    return half - _rounding_weights_only(backends)


def _rounding_weights_only(backends: Sequence[Backend]) -> set[str]:
    """Return the ids of the backends that compute in float32 with weights of a lower precision."""
    ids = set()
    for backend in backends:
        info = registry.find_by_name(backend.name)
        compiler = compiler_of(info)
        if isinstance(compiler, WeightRoundingCompiler):
            with failures_named(f"backend {backend.name!r}"):
                if compiler.rounds_weights_only(compiler.Options(**backend.options)):
                    ids.add(info.backend_id)
    return ids
