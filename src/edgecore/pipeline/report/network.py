"""The graph of a delegated program: the call that computes each value, inside and outside of delegates."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Graph, Node

from edgecore.ir.control_flow import control_flow, is_control_flow
from edgecore.ir.delegate import is_delegate_call, module_of
from edgecore.ir.dialect.dtypes import dtype_name


@dataclass(frozen=True)
class Connections:
    """The inputs, the result and the partition of a call.

    Attributes:
        inputs: Names of the calls, or of inputs of the method, whose results the call reads.
        shape: The dtype and shape of the first result, such as `float32 [1, 10]`; empty if it is not a tensor.
        partition: Number of the delegate that computes the call, from 0 in the order of the program; None outside of
            delegates.
    """

    inputs: tuple[str, ...]
    shape: str
    partition: int | None = None


def connections(program: ExportedProgram) -> dict[str, Connections]:
    """Return the connections of each call by its node's name, including calls in delegates, branches and loops.

    A loop's call reads the initial values: edges from one iteration to the next are left out.
    """
    finder = _Finder()
    user_inputs = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT}
    sources = {
        node: ((node.name,) if node.name in user_inputs else ())
        for node in program.graph.nodes
        if node.op == "placeholder"
    }
    finder.walk(program.graph, sources, None)
    return finder.calls


@dataclass
class _Finder:
    calls: dict[str, Connections] = field(default_factory=dict)
    delegates: int = 0

    def walk(
        self, graph: Graph, sources: Mapping[Node, tuple[str, ...]], partition: int | None
    ) -> dict[Node, tuple[str, ...]]:
        """Add the calls of a graph; return for each node the calls and inputs that compute its value."""
        made = dict(sources)
        results: dict[Node, list[tuple[str, ...]]] = {}
        for node in graph.nodes:
            if node.op != "call_function":
                continue
            if node.target is operator.getitem and node.args[0] in results:
                made[node] = results[node.args[0]][int(node.args[1])]
            elif node.target is operator.getitem:
                made[node] = made.get(node.args[0], ())
            elif is_delegate_call(node):
                results[node] = self._delegate(node, made)
            else:
                read = tuple(dict.fromkeys(name for one in node.all_input_nodes for name in made.get(one, ())))
                made[node] = (node.name,)
                self.calls[node.name] = Connections(read, _shape(node.meta.get("val")), partition)
                if is_control_flow(node):
                    flow = control_flow(node)
                    for body in flow.bodies:
                        inside = {
                            placeholder: made.get(operand, ()) if isinstance(operand, Node) else ()
                            for placeholder, operand, _ in flow.bound(body)
                        }
                        self.walk(body.graph, inside, partition)
        return made

    def _delegate(self, call: Node, made: Mapping[Node, tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Add the calls inside a delegate, and return the calls that compute each result of the delegate."""
        program = module_of(call).original_module
        operands = dict(zip(program.graph_signature.user_inputs, call.args[1:], strict=True))
        sources = {}
        for node in program.graph.nodes:
            if node.op == "placeholder":
                operand: Any = operands.get(node.name)
                sources[node] = made.get(operand, ()) if isinstance(operand, Node) else ()
        number, self.delegates = self.delegates, self.delegates + 1
        inside = self.walk(program.graph, sources, number)
        specs = program.graph_signature.output_specs
        values = zip(specs, program.graph.output_node().args[0], strict=True)
        return [
            inside.get(value, ()) if isinstance(value, Node) else ()
            for spec, value in values
            if spec.kind == OutputKind.USER_OUTPUT
        ]


def _shape(value: Any) -> str:
    first = value[0] if isinstance(value, (tuple, list)) and value else value
    if not isinstance(first, torch.Tensor):
        return ""
    return f"{dtype_name(first.dtype)} [{', '.join(map(str, first.shape))}]"
