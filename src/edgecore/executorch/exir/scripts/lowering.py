"""`to_edge` and `to_edge_transform_and_lower` with ExecuTorch's order of arguments, passes and names of nodes.

`to_backend` here also takes several methods at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.executorch.exir import program as edge_program
from edgecore.executorch.exir.config import EdgeCompileConfig
from edgecore.executorch.exir.scripts.managers import EdgeProgramManager, Passes, edge_passes, on_graphs
from edgecore.ir.program.copying import copy_program
from edgecore.partition import Partitioner
from edgecore.pipeline.lowering import to_backend as delegate_whole
from edgecore.pipeline.lowering.methods import PartitionerSpec, Programs, partitioners_by_method, programs_by_method


def to_edge(
    programs: Programs,
    constant_methods: Mapping[str, object] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """Call `edgecore.to_edge`."""
    edge = edge_program.to_edge(
        programs,
        constant_methods=constant_methods,
        passes=edge_passes(),
        compile_config=compile_config,
        generate_etrecord=generate_etrecord,
    )
    return EdgeProgramManager.of(edge)


def to_edge_transform_and_lower(
    programs: Programs,
    transform_passes: Passes | None = None,
    partitioner: PartitionerSpec = None,
    constant_methods: Mapping[str, object] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """Call each partitioner's `transform_for_pre_decomposition`, then `edgecore.to_edge_transform_and_lower`."""
    exported = programs_by_method(programs)
    chosen = partitioners_by_method(partitioner, exported)
    edge = edge_program.to_edge_transform_and_lower(
        {name: _transformed(program, chosen[name]) for name, program in exported.items()},
        transform_passes=on_graphs(transform_passes),
        partitioner=chosen,
        constant_methods=constant_methods,
        passes=edge_passes(),
        compile_config=compile_config,
        generate_etrecord=generate_etrecord,
    )
    return EdgeProgramManager.of(edge)


def _transformed(program: ExportedProgram, partitioners: Sequence[Partitioner]) -> ExportedProgram:
    """Call `transform_for_pre_decomposition` of the partitioners that have it, on copies of an exported program."""
    for partitioner in partitioners:
        if hasattr(partitioner, "transform_for_pre_decomposition"):
            program = partitioner.transform_for_pre_decomposition(copy_program(program))
            if not isinstance(program, ExportedProgram):
                raise CompileError(
                    f"{type(partitioner).__name__}.transform_for_pre_decomposition gave a {type(program).__name__}; "
                    "return the exported program"
                )
    return program


@dataclass(frozen=True)
class MethodProgramsPartitionerSpec:
    """The edge programs of several methods and their partitioners, as an argument of `to_backend`."""

    method_to_edge_program: Mapping[str, ExportedProgram]
    method_to_partitioner: Mapping[str, Partitioner]


_NAMES = {"edge_program": "program", "partitioner_instance": "program"}
"""ExecuTorch's names of the second argument of `to_backend` -> edgecore's name."""


def to_backend(backend: Any, *arguments: Any, **named: Any) -> Any:
    """Delegate the methods of a `MethodProgramsPartitionerSpec`, or call `edgecore.pipeline.to_backend`.

    Returns:
        Name of a method -> its edge program with delegates.

    Raises:
        CompileError: A partitioner is for a method that has no program.
    """
    if not isinstance(backend, MethodProgramsPartitionerSpec):
        return delegate_whole(backend, *arguments, **{_NAMES.get(name, name): value for name, value in named.items()})
    lowered = EdgeProgramManager(backend.method_to_edge_program).to_backend(backend.method_to_partitioner)
    return {name: lowered.exported_program(name) for name in backend.method_to_edge_program}
