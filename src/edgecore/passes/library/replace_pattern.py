"""Replace patterns by backend operators, or backend operators by their patterns."""

from __future__ import annotations

import operator
from typing import Any

from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, symbolic_trace
from torch.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

from edgecore.errors import CompileError
from edgecore.ir.control_flow import graph_modules
from edgecore.ir.graph import Editor, calls, edit, fake_mode, operator_name
from edgecore.ir.operators.backend_operators import PATTERNS, Pattern
from edgecore.ir.torch_compat import OpOverload
from edgecore.passes.decompose import inline_decomposition
from edgecore.passes.pass_list import ProgramPass


def replace_pattern(target: OpOverload, pattern: Pattern | None = None) -> ProgramPass:
    """Make a pass that replaces every occurrence of a pattern by a call of a backend operator.

    An occurrence is not replaced if a node outside of it reads one of its intermediate values.

    Args:
        target: The operator. Its arguments are the inputs of the pattern, in this order.
        pattern: A function that calls overloads such as `torch.ops.aten.add.Tensor`. Its inputs match any node, its
            numbers match equal numbers. By default the pattern that is bound to `target`.

    Raises:
        CompileError: `target` has no pattern, or the pattern calls functions other than overloads.
    """
    chosen = pattern or PATTERNS.get(target)
    if chosen is None:
        raise CompileError(f"{operator_name(target)} has no pattern: give one, or bind it with bind_pattern_to_op")
    graph = _pattern_graph(chosen, target)

    def replace_all(program: ExportedProgram) -> ExportedProgram:
        with edit(program) as graph_module:
            mode = fake_mode(graph_module)
            for part in graph_modules(graph_module):
                for match in SubgraphMatcher(graph).match(part.graph):
                    _replace(part, match, target, mode)
        return program

    return replace_all


def _pattern_graph(pattern: Pattern, target: OpOverload) -> Graph:
    graph = symbolic_trace(pattern).graph
    for node in graph.nodes:
        if node.op not in ("placeholder", "output") and not isinstance(node.target, OpOverload):
            raise CompileError(
                f"the pattern of {operator_name(target)} calls {node.target}: write it with overloads, "
                "such as torch.ops.aten.add.Tensor"
            )
    return graph


def _replace(graph_module: GraphModule, match: InternalMatch, target: OpOverload, mode: Any) -> None:
    matched = {node for node in match.nodes_map.values() if node not in match.placeholder_nodes}
    last = next(node for node in reversed(graph_module.graph.nodes) if node in matched)
    editor = Editor(graph_module, last, mode)
    call = editor.call(target, *match.placeholder_nodes)
    results = match.returning_nodes
    for index, result in enumerate(results):
        value = call
        if len(results) > 1:
            value = editor.call(operator.getitem, call, index, val=call.meta["val"][index])
        result.replace_all_uses_with(value)


def expand_bound_operators(program: ExportedProgram) -> ExportedProgram:
    """Replace backend operators by their patterns, for a runtime without kernels for them."""
    with edit(program) as graph_module:
        mode = fake_mode(graph_module)
        for part in graph_modules(graph_module):
            for node in calls(part, *PATTERNS):
                inline_decomposition(part, node, mode, set())
    return program
