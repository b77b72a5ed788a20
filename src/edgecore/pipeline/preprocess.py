"""Finding the compiler of a backend and having it compile a partition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from torch.export import ExportedProgram

from edgecore.plugin import (
    BackendCompiler,
    BackendInfo,
    CompileSpec,
    PreprocessResult,
    ReportingCompiler,
    registry,
)


@cache
def compiler_of(info: BackendInfo) -> BackendCompiler:
    """The compile side of a backend, created once a process."""
    return registry.load_compiler(info)


def preprocess(
    backend_id: str, program: ExportedProgram, specs: Sequence[CompileSpec]
) -> tuple[PreprocessResult, tuple[str, str]]:
    """Have the installed backend compile a partition; also the name and version of its distribution."""
    info = registry.find(backend_id)
    compiler = compiler_of(info)
    return compiler.preprocess(program, specs), _distribution(info)


def report_lines(backend_id: str, results: Sequence[PreprocessResult]) -> list[str]:
    """What the backend says of its delegates. A failure is a line, too: nothing is lost but this section."""
    try:
        compiler = compiler_of(registry.find(backend_id))
        return list(compiler.report_lines(results)) if isinstance(compiler, ReportingCompiler) else []
    except Exception as error:
        return [f"no report: {type(error).__name__}: {error}"]


@cache
def _distribution(info: BackendInfo) -> tuple[str, str]:
    package = info.compiler.partition(":")[0].partition(".")[0]
    for name in packages_distributions().get(package, ()):
        try:
            return name, version(name)
        except PackageNotFoundError:
            continue
    return package, ""
