"""Link the delegates of a backend across all methods, so that they can share data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from edgecore.ir.delegate import LoweredBackendModule
from edgecore.partition.fallback import PartitionDiagnostics
from edgecore.plugin import CompiledPartition, PreprocessResult

Link = Callable[[str, Sequence[CompiledPartition]], Sequence[PreprocessResult]]
"""A function that takes a backend id and all partitions of this backend, and returns the partitions' final results."""


def link_delegates(
    modules: Mapping[str, Sequence[LoweredBackendModule]],
    link: Link,
    diagnostics: Mapping[str, PartitionDiagnostics],
    required: Collection[str],
) -> None:
    """Replace the results of a backend's delegates by what `link` returns, if the backend has two or more delegates.

    If `link` fails, the delegates stay as they were compiled, and a `FallbackWarning` names the backend.

    Args:
        modules: Method name -> its delegates, which are edited in place.
        link: Makes the final results of a backend.
        diagnostics: Method name -> object that records a failure.
        required: The methods whose backends must not fail.

    Raises:
        CompileError: `link` failed for a backend with delegates in a method of `required`.
    """
    by_backend: dict[str, list[tuple[str, LoweredBackendModule]]] = {}
    for method, of_method in modules.items():
        for module in of_method:
            by_backend.setdefault(module.backend_id, []).append((method, module))
    for backend_id, of_backend in by_backend.items():
        if len(of_backend) < 2:
            continue
        compiled = [
            CompiledPartition(method, module.original_module, module.compile_specs, module.result)
            for method, module in of_backend
        ]
        try:
            results = list(link(backend_id, compiled))
            _check(compiled, results)
        except Exception as error:
            methods = [method for method, _ in of_backend]
            is_required = not set(required).isdisjoint(methods)
            diagnostics[methods[0]].leave_unlinked(backend_id, len(compiled), error, is_required)
            continue
        for (_, module), result in zip(of_backend, results, strict=True):
            module.result = result


def _check(compiled: Sequence[CompiledPartition], results: Sequence[PreprocessResult]) -> None:
    """Check that `link` returned a result for each partition, with the same number of `unread_results` as before."""
    if len(results) != len(compiled):
        raise ValueError(f"link gave {len(results)} results")
    for partition, result in zip(compiled, results, strict=True):
        if not isinstance(result, PreprocessResult):
            raise TypeError(f"link gave a {type(result).__name__}, not a PreprocessResult")
        if len(result.unread_results) != len(partition.result.unread_results):
            raise ValueError("link changed the number of unread_results")
