"""A buffer that one method writes is no constant of another method that only reads it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx import Node

from edgecore.ir.graph import edit


def keep_state(programs: Mapping[str, ExportedProgram]) -> None:
    """Give every method that only reads a buffer which another one writes an output that leaves the buffer as it is.

    Passes then take it for state and do not fold or delegate its content, so that the methods may share it. The programs
    are functional and edited in place.
    """
    written = {name for program in programs.values() for name in program.graph_signature.buffers_to_mutate.values()}
    for program in programs.values():
        own = set(program.graph_signature.buffers_to_mutate.values())
        for spec in program.graph_signature.input_specs:
            name = spec.target
            if spec.kind == InputKind.BUFFER and name in written and name not in own:
                _leave(program, next(node for node in program.graph.nodes if node.name == spec.arg.name), name)


def buffer_of(program: ExportedProgram, name: str) -> torch.Tensor:
    """The initial content of the buffer of that qualified name."""
    tensor = program.state_dict.get(name)
    return program.constants[name] if tensor is None else tensor  # type: ignore[no-any-return]


def _leave(program: ExportedProgram, node: Node, name: str) -> None:
    if not node.users:
        return
    with edit(program) as graph_module:
        output = graph_module.graph.output_node()
        assert isinstance(output.args[0], (tuple, list))
        output.args = ((node, *output.args[0]),)
        spec = OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(node.name), name)
        program.graph_signature.output_specs.insert(0, spec)
