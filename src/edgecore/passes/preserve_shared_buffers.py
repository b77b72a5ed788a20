"""Keep buffers that several methods share mutable in the methods that only read them."""

from __future__ import annotations

from collections.abc import Collection

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx import Node

from edgecore.ir.graph import edit


def preserve_shared_buffers(program: ExportedProgram, written: Collection[str]) -> ExportedProgram:
    """Give a method that only reads a buffer of `written` an output that leaves this buffer as it is.

    Later passes then see a mutable buffer, which they neither fold nor delegate, so that the methods may share it.

    Args:
        program: A functional program; it is edited in place and returned.
        written: Qualified names of the buffers that some method writes.
    """
    own = set(program.graph_signature.buffers_to_mutate.values())
    for spec in program.graph_signature.input_specs:
        name = spec.target
        if spec.kind == InputKind.BUFFER and name in written and name not in own:
            _leave(program, next(node for node in program.graph.nodes if node.name == spec.arg.name), name)
    return program


def _leave(program: ExportedProgram, node: Node, name: str) -> None:
    if not node.users:
        return
    with edit(program) as graph_module:
        output = graph_module.graph.output_node()
        assert isinstance(output.args[0], (tuple, list))
        output.args = ((node, *output.args[0]),)
        spec = OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(node.name), name)
        program.graph_signature.output_specs.insert(0, spec)
