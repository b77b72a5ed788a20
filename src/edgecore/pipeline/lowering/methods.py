"""Convert arguments of lowering, each one value for all methods or a mapping by method, to one value per method."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.partition import Partitioner, check_partitioner

Programs = ExportedProgram | Mapping[str, ExportedProgram]
PartitionerSpec = Iterable[Partitioner] | Mapping[str, Sequence[Partitioner]] | None


def check_methods(by_method: Any, methods: Collection[str], argument: str) -> None:
    """Raise a `CompileError` if an argument is a mapping with a method that the program lacks."""
    unknown = [name for name in by_method if name not in methods] if isinstance(by_method, Mapping) else []
    if unknown:
        raise CompileError(f"{argument} has the method {unknown[0]!r}, but the program has: {', '.join(methods)}")


def programs_by_method(programs: Programs) -> dict[str, ExportedProgram]:
    """Return the program of each method; a single program is the method `forward`.

    Raises:
        CompileError: The argument is something else, such as a module.
    """
    by_method = dict(programs) if isinstance(programs, Mapping) else {"forward": programs}
    for name, program in by_method.items():
        if not isinstance(program, ExportedProgram):
            raise CompileError(
                f"method {name!r} is given as {type(program).__name__}, not as an exported program: call "
                "torch.export.export(model, inputs) first"
            )
    return by_method


def partitioners_by_method(partitioner: PartitionerSpec, methods: Collection[str]) -> dict[str, list[Partitioner]]:
    """Return the partitioners of each method by priority; a list without method names applies to all methods.

    Raises:
        CompileError: A method is unknown, or the argument is something else, such as one partitioner.
    """
    if not isinstance(partitioner, Mapping):
        return dict.fromkeys(methods, _listed(partitioner))
    check_methods(partitioner, methods, "partitioner")
    return {name: _listed(partitioner.get(name)) for name in methods}


def _listed(partitioners: Iterable[Partitioner] | None) -> list[Partitioner]:
    if partitioners is not None and (isinstance(partitioners, str) or not isinstance(partitioners, Iterable)):
        raise CompileError(
            f"partitioner is one {type(partitioners).__name__}, not a list of partitioners: put it in brackets, "
            "partitioner=[...]"
        )
    listed = list(partitioners or ())
    for partitioner in listed:
        check_partitioner(partitioner)
    return listed
