"""Copy tensors that an operator overwrites while their old content is still needed."""

from __future__ import annotations

import operator

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import GraphModule, Node

from edgecore.ir.control_flow import graph_modules
from edgecore.ir.graph import Editor, calls, edit, fake_mode
from edgecore.ir.operators.mutating_operators import writer_of
from edgecore.ir.program.outputs import written_placeholders
from edgecore.ir.torch_compat import FakeTensorMode, schema_of

aten = torch.ops.aten


def copy_before_writes(program: ExportedProgram) -> ExportedProgram:
    """Make sure that each operator that writes an argument receives a tensor that it may overwrite.

    The call gets a copy if the tensor is a constant or an input of the method, if the tensor is also another argument
    of the call, or if another call or the method's caller reads the tensor later. A mutable buffer whose old content
    nothing reads is written directly. After this pass, a written argument and the result with its new content can share
    memory.
    """
    parts = list(graph_modules(program.graph_module))
    if not any(writer_of(node.target) for part in parts for node in calls(part)):
        return program
    mode = fake_mode(program.graph_module)
    signature = program.graph_signature
    buffers = written_placeholders(program)
    with edit(program):
        for part in parts:
            is_top = part is program.graph_module
            for node in calls(part):
                _copy_operands(part, node, buffers if is_top else {}, mode)
            targets = [
                spec.target if spec.kind == OutputKind.BUFFER_MUTATION else None for spec in signature.output_specs
            ]
            _copy_results(part, buffers, targets if is_top else None, mode)
    return program


def _copy_operands(part: GraphModule, node: Node, buffers: dict[str, str], mode: FakeTensorMode) -> None:
    writer = writer_of(node.target)
    if writer is None:
        return
    position = {other: index for index, other in enumerate(part.graph.nodes)}
    names = [spec.name for spec in schema_of(writer.operator).arguments]
    for index in map(names.index, writer.written):
        operand = node.args[index]
        assert isinstance(operand, Node)
        same = _same_value(operand)
        readers = [user for value in same for user in value.users if user.target is not operator.getitem]
        later = [
            reader for reader in readers if position.get(reader, -1) > position[node]
        ]  # copies that this function inserted before the call have no position: skip them
        uses = sum(argument in same for argument in _flat(node))
        is_constant = operand.op == "placeholder" and operand.name not in buffers
        if not is_constant and uses == 1 and not later:
            continue
        copied = _copy(part, node, operand, mode)
        if not _is_new_content(part, operand, buffers):
            node.update_arg(index, copied)
            continue
        for reader in (*later, node):  # other readers read the copy, because the buffer must hold the newest content
            for value in same:
                reader.replace_input_with(value, copied)
        node.update_arg(index, operand)


def _is_new_content(part: GraphModule, operand: Node, buffers: dict[str, str]) -> bool:
    """Return True if an operand lies in a mutable buffer, and the writes compute the buffer's new content."""
    root = _root(operand)
    results = part.graph.output_node().args[0]
    assert isinstance(results, (tuple, list))
    return root.name in buffers and any(
        isinstance(value, Node) and value is not root and _root(value) is root for value in results
    )


def _copy_results(
    part: GraphModule, buffers: dict[str, str], targets: list[str | None] | None, mode: FakeTensorMode
) -> None:
    """Copy results that lie in a mutable buffer, unless they are the new content of this buffer.

    `targets` maps each result to the buffer whose new content it is. In the body of a branch or loop, `targets` is
    None: all results need their own memory.
    """
    output = part.graph.output_node()
    results = output.args[0]
    assert isinstance(results, (tuple, list))

    def placed(index: int, value: Node) -> Node:
        root = _root(value)
        is_here = targets is not None and (root.op != "placeholder" or buffers.get(root.name) == targets[index])
        return value if root is value or is_here else _copy(part, output, value, mode)

    output.args = (
        tuple(placed(index, value) if isinstance(value, Node) else value for index, value in enumerate(results)),
    )


def _copy(part: GraphModule, origin: Node, value: Node, mode: FakeTensorMode) -> Node:
    copied = Editor(part, origin, mode).call(aten.clone.default, value, val=value.meta["val"])
    copied.meta["unsupported_reasons"] = [("edgecore", "a copy of a tensor that an operator writes")]
    return copied


def _root(value: Node) -> Node:
    """Return the first tensor of a chain of writes that ends with `value`; `value` itself if no operator wrote it."""
    call, index = (value.args[0], value.args[1]) if value.target is operator.getitem else (value, 0)
    assert isinstance(call, Node) and isinstance(index, int)
    writer = writer_of(call.target)
    return value if writer is None or index < writer.fresh else _root(writer.operands(call)[index - writer.fresh])


def _same_value(node: Node) -> list[Node]:
    """Return all nodes of a value: several `getitem` nodes may select the same result of a call."""
    if node.target is not operator.getitem:
        return [node]
    source, index = node.args
    assert isinstance(source, Node)
    return [user for user in source.users if user.target is operator.getitem and user.args[1] == index]


def _flat(node: Node) -> list[Node]:
    """Return the nodes in the arguments of a call and in their lists, each as often as it occurs."""
    nodes: list[Node] = []
    torch.fx.map_arg((node.args, node.kwargs), nodes.append)
    return nodes
