"""Present the branches and loop bodies of a program as programs, so that backends can take parts of them, too."""

from __future__ import annotations

from collections.abc import Iterator

from torch.export import ExportedProgram, ExportGraphSignature
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import GraphModule, Node

from edgecore.ir.control_flow import WHILE, ControlFlow, control_flow, is_control_flow, placeholders, results
from edgecore.ir.graph import all_calls, calls, edit
from edgecore.ir.program.constants import Constants
from edgecore.ir.torch_compat import replace_parts


def body_programs(program: ExportedProgram) -> Iterator[ExportedProgram]:
    """Yield each branch and loop body of a program as a program that shares the body's graph, outer bodies first.

    A constant that the body captures is a constant of the yielded program. Edits of this program change the body. The
    condition of a `while_loop` is left out, because it returns a single value instead of a tuple.
    """
    for node in calls(program.graph_module):
        if is_control_flow(node):
            flow = control_flow(node)
            for body in flow.bodies[1:] if node.target is WHILE else flow.bodies:
                part = _as_program(program, flow, body)
                yield part
                yield from body_programs(part)


def _as_program(program: ExportedProgram, flow: ControlFlow, body: GraphModule) -> ExportedProgram:
    constants = Constants(program)
    first_captured = len(flow.operands) - len(flow.captured)
    input_specs = []
    for index, (placeholder, operand, _) in enumerate(flow.bound(body)):
        argument = TensorArgument(placeholder.name)
        if index >= first_captured and constants.has(operand):
            weight = constants.specs[operand.name]
            input_specs.append(InputSpec(weight.kind, argument, weight.target, weight.persistent))
        else:
            input_specs.append(InputSpec(InputKind.USER_INPUT, argument, None))
    output_specs = [
        OutputSpec(
            OutputKind.USER_OUTPUT,
            TensorArgument(value.name) if isinstance(value, Node) else ConstantArgument("", value),
            None,
        )
        for value in results(body)
    ]
    signature = ExportGraphSignature(input_specs, output_specs)
    return replace_parts(program, graph_module=body, graph_signature=signature)


def name_apart(program: ExportedProgram) -> None:
    """Give calls in branches and loop bodies unique names, because edgecore stores reasons by node name."""
    used: set[str] = set()
    for node in all_calls(program.graph_module):
        name, number = node.name, 0
        while node.name in used:
            number += 1
            node.name = f"{name}_of_body_{number}"
        used.add(node.name)


def drop_unread_captures(program: ExportedProgram) -> None:
    """Remove captured values that no body of a control-flow node reads, such as weights that delegates now hold."""
    with edit(program) as graph_module:
        _drop_unread(graph_module)


def _drop_unread(graph_module: GraphModule) -> None:
    for node in filter(is_control_flow, calls(graph_module)):
        bodies, captured = control_flow(node).bodies, control_flow(node).captured
        for body in bodies:
            _drop_unread(body)
        inputs = [placeholders(body)[-len(captured) :] if captured else [] for body in bodies]
        read = [any(placeholder.users for placeholder in same) for same in zip(*inputs, strict=True)]
        for placeholder, is_read in (pair for of_body in inputs for pair in zip(of_body, read)):
            if not is_read:
                placeholder.graph.erase_node(placeholder)
        *others, last = node.args
        kept = [operand for operand, is_read in zip(captured, read, strict=True) if is_read]
        node.args = (*others, kept if isinstance(last, list) else tuple(kept))
