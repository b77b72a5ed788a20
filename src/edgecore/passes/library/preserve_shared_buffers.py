"""Make a buffer mutable in all methods that read it, if any method writes it."""

from __future__ import annotations

from collections.abc import Collection

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx import Node

from edgecore.ir.graph import edit
from edgecore.ir.program.outputs import written_buffers


def preserve_shared_buffers(program: ExportedProgram, written: Collection[str]) -> ExportedProgram:
    """Add an output to a method for each buffer that other methods write and this method only reads.

    The output assigns the buffer to itself, so that its content does not change. Later passes then treat the buffer as
    mutable: they neither fold nor delegate it, and memory planning can share it between the methods.

    Args:
        program: A functional program; it is edited in place and returned.
        written: Qualified names of the buffers that any method writes.
    """
    mutated = written_buffers(program)
    for spec in program.graph_signature.input_specs:
        name = spec.target
        if spec.kind == InputKind.BUFFER and name in written and name not in mutated:
            _add_output(program, next(node for node in program.graph.nodes if node.name == spec.arg.name), name)
    return program


def _add_output(program: ExportedProgram, node: Node, name: str) -> None:
    if not node.users:
        return
    with edit(program) as graph_module:
        output = graph_module.graph.output_node()
        assert isinstance(output.args[0], (tuple, list))
        output.args = ((node, *output.args[0]),)
        spec = OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(node.name), name)
        program.graph_signature.output_specs.insert(0, spec)
