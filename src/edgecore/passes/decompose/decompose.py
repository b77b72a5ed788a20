"""Every operator that is not in the edge dialect is decomposed once, where it stands."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from edgecore.errors import CompileError
from edgecore.ir.control_flow import control_flow, is_control_flow
from edgecore.ir.dialect import VIEW_COPIES, is_edge_operator
from edgecore.ir.graph import Editor, calls, dense, describe, edit, fake_mode, refresh_vals, replace, same_layout
from edgecore.ir.tensors import dim_order
from edgecore.passes.decompose import rewrites_complex, volumes  # noqa: F401  (they register their rewrites)
from edgecore.passes.decompose.control_flow import dense_operands, dense_placeholders, dense_results, own_results
from edgecore.passes.decompose.own_decompositions import decomposition_of
from edgecore.passes.decompose.rewrites import REWRITES
from edgecore.passes.functionalize import functional_form

Preserve = Callable[[Node], bool]
"""Whether a node stays whole although it is not in the dialect, because a backend asked for it."""


def preserve_nothing(node: Node) -> bool:
    """No node stays whole."""
    return False


def decompose(program: ExportedProgram, preserve: Preserve = preserve_nothing) -> ExportedProgram:
    """Rewrite `program` into the edge dialect, but for the nodes that `preserve` wants whole.

    Frequent operators have direct rewrites; the rest goes through torch's core ATen decompositions, node by node. Only
    new nodes, and nodes whose inputs changed their layout, get a new `val`.
    """
    with edit(program) as graph_module:
        _decompose_graph(graph_module, fake_mode(graph_module), preserve, set())
    return program


def _decompose_graph(graph_module: GraphModule, mode: Any, preserve: Preserve, relaid: set[Node]) -> None:
    """Rewrite one graph, then the bodies of its control flow; `relaid` nodes have another layout than their users saw."""
    pending = calls(graph_module)[::-1]
    flows = [node for node in pending if is_control_flow(node)]
    for node in flows:
        relaid |= dense_results(node)
    while pending:
        node = pending.pop()
        if preserve(node):
            _make_dense(node, mode, relaid)
            continue
        created = _expand(graph_module, node, mode, relaid)
        pending.extend(reversed(created))
    if relaid:
        refresh_vals(graph_module, relaid, mode)
    for node in flows:
        dense_operands(graph_module, node, mode)
        for body in control_flow(node).bodies:
            _decompose_graph(body, mode, preserve, dense_placeholders(body))
            own_results(body, node, mode)


def _expand(graph_module: GraphModule, node: Node, mode: Any, relaid: set[Node]) -> list[Node]:
    """Replace one node by nodes closer to the dialect and return those that need another look."""
    target = node.target
    rewrite = REWRITES.get(target) if isinstance(target, OpOverload) else None
    if rewrite is not None:
        editor = Editor(graph_module, node, mode)
        replacement = rewrite(editor, node)
        if replacement is not None:
            _note_layout(node, replacement, relaid)
            replace(node, replacement)
            return editor.created
    if target in VIEW_COPIES:
        assert isinstance(target, OpOverload)
        editor = Editor(graph_module, node, mode)
        with mode:
            val = dense(node.meta["val"])
        copied = editor.call(VIEW_COPIES[target], *node.args, val=val, **node.kwargs)
        _note_layout(node, copied, relaid)
        replace(node, copied)
        return []
    if isinstance(target, OpOverload):
        _numbers_to_tensors(Editor(graph_module, node, mode), node)
    if target is torch.ops.aten.nonzero.default:  # eager's result lies in columns, the kernel's in rows
        with mode:
            node.meta["val"] = node.meta["val"].new_empty(node.meta["val"].shape)
        relaid.add(node)
    if is_edge_operator(target) and decomposition_of(node) is None:
        return []
    return inline_decomposition(graph_module, node, mode, relaid)


def _numbers_to_tensors(editor: Editor, node: Node) -> None:
    """A number where the schema has a tensor, as torch exports it, becomes a tensor without dimensions."""
    assert isinstance(node.target, OpOverload)
    for index, spec in enumerate(node.target._schema.arguments[: len(node.args)]):
        value = node.args[index]
        number = value.meta["val"] if isinstance(value, Node) else value
        if str(spec.real_type) != "Tensor" or not isinstance(number, (bool, int, float, torch.SymInt, torch.SymFloat)):
            continue
        like = next((leaf.meta["val"] for leaf in node.all_input_nodes if _is_tensor(leaf)), None)
        dtype = torch.result_type(torch.empty(0, dtype=like.dtype), _kind(number)) if like is not None else None
        node.update_arg(index, editor.call(torch.ops.aten.scalar_tensor.default, value, dtype=dtype))


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _kind(number: Any) -> bool | int | float:
    """A number of the same Python type."""
    return number if isinstance(number, bool) else 1 if isinstance(number, (int, torch.SymInt)) else 1.0


@cache
def _decompositions() -> dict[OpOverload, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions

    table = core_aten_decompositions()
    return {op: function for op, function in dict(table).items() if isinstance(op, OpOverload)}


def inline_decomposition(graph_module: GraphModule, node: Node, mode: Any, relaid: set[Node]) -> list[Node]:
    """Inline the decomposition of one node, edgecore's own or torch's."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import make_fx

    if not isinstance(node.target, OpOverload):
        raise CompileError(
            f"{describe(node)}: the edge dialect has no such function; its control flow is cond, map, scan and while_loop"
        )
    table, own = _decompositions(), decomposition_of(node)
    if own is None and node.target not in table and not node.target._can_decompose():
        return []  # the verifier speaks of it
    leaves = [leaf for leaf in node.all_input_nodes]

    def call(*values: Any) -> Any:
        by_node = dict(zip(leaves, values, strict=True))
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda leaf: by_node[leaf])
        function = own or node.target
        assert callable(function)
        return function(*args, **kwargs)

    def trace(function: Callable[..., Any]) -> GraphModule:
        with mode, torch.no_grad(), enable_python_dispatcher(), _without_onednn():
            traced = make_fx(function, decomposition_table=table, tracing_mode="real")
            return traced(*(leaf.meta["val"] for leaf in leaves))

    module = trace(call)
    if any(_is_mutable(new) and _writes_to_view(new) for new in module.graph.nodes):
        module = trace(torch.func.functionalize(module, remove="mutations_and_views"))
    traced = module.graph
    calls_traced = [new.target for new in traced.nodes if new.op == "call_function"]
    if [target for target in calls_traced if target is not operator.getitem] == [node.target]:
        return []  # the verifier speaks of it
    return _inline(traced, node, leaves, Editor(graph_module, node, mode), relaid)


def _make_dense(node: Node, mode: Any, relaid: set[Node]) -> None:
    """The results of a node that stays whole are its backend's to lay out: dense, where eager returns a view."""
    val = node.meta["val"]
    tensors = [item for item in (val if isinstance(val, (list, tuple)) else [val]) if isinstance(item, torch.Tensor)]
    if all(_is_dense(tensor) for tensor in tensors):
        return
    with mode:
        node.meta["val"] = dense(val)
    relaid.add(node)


def _is_dense(tensor: torch.Tensor) -> bool:
    if free_unbacked_symbols(tensor):
        return True  # sizes that depend on data: backends see them as they are
    return dim_order(tensor) in (tuple(range(tensor.dim())), (0, 2, 3, 1))


def _note_layout(old: Node, new: Node, relaid: set[Node]) -> None:
    """What reads `new` needs another look if it did in place of `old`, or the two differ in shape, strides or dtype."""
    if old in relaid or not same_layout(old.meta["val"], new.meta["val"]):
        relaid.add(new)


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Without oneDNN, whose LSTM is one operator without a decomposition."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _is_mutable(new: Node) -> bool:
    return isinstance(new.target, OpOverload) and new.target._schema.is_mutable


def _writes_to_view(new: Node) -> bool:
    """Whether what the first argument shares memory with would have to change as well."""
    if not isinstance(new.target, OpOverload) or functional_form(new.target) is None:
        return True
    written = new.args[0] if new.args else None
    target = written.target if isinstance(written, Node) else None
    return isinstance(target, OpOverload) and any(result.alias_info is not None for result in target._schema.returns)


def _inline(traced: Graph, node: Node, leaves: list[Node], editor: Editor, relaid: set[Node]) -> list[Node]:
    """Copy a traced graph in front of `node`, whose uses then read its results.

    Where a decomposition writes to a value of its own, later nodes read the result of the functional operator.
    """
    inner: dict[Node, Any] = dict(zip((n for n in traced.nodes if n.op == "placeholder"), leaves, strict=True))
    lookup = partial(inner.__getitem__)
    results: Any = None
    for new in traced.nodes:
        if new.op == "call_function":
            args, kwargs = torch.fx.map_arg((new.args, new.kwargs), lookup)
            functional = None if _writes_to_view(new) else functional_form(new.target)
            inner[new] = editor.call(functional or new.target, *args, val=new.meta.get("val"), **kwargs)
            if functional is not None:
                inner[new.args[0]] = inner[new]
        elif new.op == "output":
            results = torch.fx.map_arg(new.args[0], lookup)
        elif new.op == "get_attr":
            raise CompileError(f"{describe(node)}: its decomposition needs a constant; fold it before compiling")
    if isinstance(results, Node):
        _note_layout(node, results, relaid)
        replace(node, results)
        return editor.created
    for user in list(node.users):
        if user.target is not operator.getitem:
            raise CompileError(f"{describe(node)} returns several values and {user.name} takes them at once")
        index = user.args[1]
        assert isinstance(index, int)
        _note_layout(user, results[index], relaid)
        replace(user, results[index])
    node.graph.erase_node(node)
    return editor.created
