"""Find the compiler of a backend, and let it compile and link partitions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from torch.export import ExportedProgram

from edgecore.plugin import (
    BackendCompiler,
    BackendInfo,
    CompiledPartition,
    CompileSpec,
    LinkingCompiler,
    PreprocessResult,
    ReportingCompiler,
    registry,
)


@cache
def compiler_of(info: BackendInfo) -> BackendCompiler:
    """Return the compiler of a backend, which is constructed once per process."""
    return registry.load_compiler(info)


def preprocess(
    backend_id: str, program: ExportedProgram, specs: Sequence[CompileSpec]
) -> tuple[PreprocessResult, tuple[str, str]]:
    """Compile a partition with an installed backend.

    Returns:
        The result, and the name and version of the backend's pip package.
    """
    info = registry.find(backend_id)
    compiler = compiler_of(info)
    return compiler.preprocess(program, specs), _distribution(info)


def link(backend_id: str, partitions: Sequence[CompiledPartition]) -> list[PreprocessResult]:
    """Return the final results of a backend's partitions: from its `link` if it has one, else from `preprocess`."""
    compiler = compiler_of(registry.find(backend_id))
    if isinstance(compiler, LinkingCompiler):
        return list(compiler.link(partitions))
    return [partition.result for partition in partitions]


def report_lines(backend_id: str, results: Sequence[PreprocessResult]) -> list[str]:
    """Return the lines that a backend adds to the report; if the backend fails, one line with the error."""
    try:
        compiler = compiler_of(registry.find(backend_id))
        return list(compiler.report_lines(results)) if isinstance(compiler, ReportingCompiler) else []
    except Exception as error:
        return [f"no report: {type(error).__name__}: {error}"]


@cache
def _distribution(info: BackendInfo) -> tuple[str, str]:
    """Return the name and version of a backend's pip package; without a package, the name of its module and ""."""
    package = info.compiler.partition(":")[0].partition(".")[0]
    for name in packages_distributions().get(package, ()):
        try:
            return name, version(name)
        except PackageNotFoundError:
            continue
    return package, ""
