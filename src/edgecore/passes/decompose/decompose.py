"""Decompose every operator that is not in the edge dialect, node by node."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache, reduce
from typing import Any, cast

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError
from edgecore.ir.control_flow import control_flow, is_control_flow
from edgecore.ir.dialect.dim_orders import dim_order
from edgecore.ir.dialect.edge_operators import VIEW_COPIES, is_edge_operator
from edgecore.ir.graph import (
    Editor,
    calls,
    compute_val,
    dense,
    describe,
    edit,
    fake_mode,
    refresh_vals,
    replace,
    same_layout,
)
from edgecore.ir.torch_compat import OpOverload, can_decompose, free_unbacked_symbols, schema_of, without_onednn
from edgecore.passes.decompose.control_flow import (
    copy_body_results,
    copy_strided,
    make_operands_dense,
    make_placeholders_dense,
    make_results_dense,
)
from edgecore.passes.decompose.decompositions import (  # noqa: F401  (they register their rewrites)
    data_dependent,
    in_place_forms,
    ordering,
    pooling,
    resampling,
    sampling,
    scatters,
    volumes,
)
from edgecore.passes.decompose.decompositions.various import decomposition_of
from edgecore.passes.decompose.rewrites import complex_numbers  # noqa: F401  (registers its rewrites)
from edgecore.passes.decompose.rewrites.direct import REWRITES, Rewrite
from edgecore.passes.decompose.strided_inputs import lay_out_inputs
from edgecore.passes.in_place import functional_form, is_mutable
from edgecore.passes.traced_graph import call_of, copy_traced, replace_results, trace

Preserve = Callable[[Node], bool]
"""A function that returns True for a node that must not be decomposed, because a backend asked for it."""


def preserve_nothing(node: Node) -> bool:
    """Return False: decompose every node."""
    return False


def decompose(
    program: ExportedProgram,
    preserve: Preserve = preserve_nothing,
    rewrites: Mapping[OpOverload, Rewrite] = REWRITES,
) -> ExportedProgram:
    """Rewrite `program` into the edge dialect, in place. Nodes that `preserve` accepts stay.

    Frequent operators have direct rewrites. Other operators are traced through edgecore's own decompositions, torch's
    core ATen decompositions, or any other decomposition that torch has. An operator without a decomposition stays, and
    the verifier reports the operator. A `val` (fake tensor) is computed only for new nodes, and for nodes whose inputs
    changed their layout.

    Args:
        program: A program without in-place operators.
        preserve: Returns True for a node that must not be decomposed.
        rewrites: The direct rewrites.

    Returns:
        `program`.

    Raises:
        CompileError: A decomposition cannot be inlined, or a branch or loop body returns a result of another dtype or
            rank than its control-flow node.
    """
    with edit(program) as graph_module:
        mode = fake_mode(graph_module)
        _decompose_graph(graph_module, mode, preserve, rewrites, lay_out_inputs(program, mode))
    return program


def _decompose_graph(
    graph_module: GraphModule,
    mode: Any,
    preserve: Preserve,
    rewrites: Mapping[OpOverload, Rewrite],
    layout_changed: set[Node],
) -> None:
    """Rewrite one graph, then the bodies of its control flow.

    `layout_changed` contains the nodes whose shape, strides or dtype changed, but whose users still have the old `val`.
    """
    pending = calls(graph_module)[::-1]
    flows = [node for node in pending if is_control_flow(node)]
    for node in flows:
        layout_changed |= make_results_dense(node)
    while pending:
        node = pending.pop()
        if preserve(node):
            _make_dense(node, mode, layout_changed)
            continue
        created = _expand(graph_module, node, mode, rewrites, layout_changed)
        pending.extend(reversed(created))
    if layout_changed:
        refresh_vals(graph_module, layout_changed, mode)
    _make_results_representable(graph_module, mode)
    for node in flows:
        make_operands_dense(graph_module, node, mode)
        for body in control_flow(node).bodies:
            _decompose_graph(body, mode, preserve, rewrites, make_placeholders_dense(body))
            copy_body_results(body, node, mode)


def _expand(
    graph_module: GraphModule,
    node: Node,
    mode: Any,
    rewrites: Mapping[OpOverload, Rewrite],
    layout_changed: set[Node],
) -> list[Node]:
    """Replace one node by nodes closer to the edge dialect. Return the new nodes that may need decomposition."""
    target = node.target
    rewrite = rewrites.get(target) if isinstance(target, OpOverload) else None
    if rewrite is not None:
        editor = Editor(graph_module, node, mode)
        replacement = rewrite(editor, node)
        if replacement is node:
            return []
        if replacement is not None:
            _note_layout(node, replacement, layout_changed)
            replace(node, replacement)
            return editor.created
    if target in VIEW_COPIES:
        assert isinstance(target, OpOverload)
        editor = Editor(graph_module, node, mode)
        with mode:
            val = dense(node.meta["val"])
        copied = editor.call(VIEW_COPIES[target], *node.args, val=val, **node.kwargs)
        _note_layout(node, copied, layout_changed)
        replace(node, copied)
        return []
    if isinstance(target, OpOverload):
        _numbers_to_tensors(Editor(graph_module, node, mode), node)
        _convert_tensors_without_dims(Editor(graph_module, node, mode), node)
    if target is torch.ops.aten.nonzero.default:  # the kernel's result is row-major, unlike the result in eager mode
        with mode:
            node.meta["val"] = node.meta["val"].new_empty(node.meta["val"].shape)
        layout_changed.add(node)
    if is_edge_operator(target) and decomposition_of(node) is None:
        return []
    return inline_decomposition(graph_module, node, mode, layout_changed)


def _numbers_to_tensors(editor: Editor, node: Node) -> None:
    """Replace numbers by 0-d tensors where the schema expects tensors, because `torch.export` keeps such numbers."""
    assert isinstance(node.target, OpOverload)
    for index, spec in enumerate(schema_of(node.target).arguments[: len(node.args)]):
        value = node.args[index]
        number = value.meta["val"] if isinstance(value, Node) else value
        if str(spec.real_type) != "Tensor" or not isinstance(number, (bool, int, float, torch.SymInt, torch.SymFloat)):
            continue
        like = next((leaf.meta["val"] for leaf in node.all_input_nodes if _is_tensor(leaf)), None)
        dtype = torch.result_type(torch.empty(0, dtype=like.dtype), _kind(number)) if like is not None else None
        node.update_arg(index, editor.call(torch.ops.aten.scalar_tensor.default, value, dtype=dtype))


def _convert_tensors_without_dims(editor: Editor, node: Node) -> None:
    """Convert a 0-d operand, if its dtype would widen the result, to the dtype in which eager mode computes.

    In eager mode, a float16 image times a 0-d float32 factor is float16: type promotion treats a 0-d tensor as a
    number, and ignores its dtype unless the dtype is of a higher kind, such as a float among integers. The kernels
    promote 0-d tensors like all others, so the factor is converted to float16 before the product. Results may differ
    slightly from eager mode, where some float16 operators round later.
    """
    assert isinstance(node.target, OpOverload)
    operands = [leaf for leaf in node.all_input_nodes if _is_tensor(leaf)]
    is_pointwise = torch.Tag.pointwise in node.target.tags or node.target is torch.ops.aten.floor_divide.default
    if not is_pointwise or len({leaf.meta["val"].dtype for leaf in operands}) < 2:
        return
    vals = [leaf.meta["val"] for leaf in operands]
    dtype = reduce(torch.promote_types, (val.dtype for val in vals if val.dim()), torch.bool)
    kinds = [_kind_of(val.dtype) for val in vals if val.dim()]
    wider = [
        leaf
        for leaf, val in zip(operands, vals, strict=True)
        if not val.dim()
        and _kind_of(val.dtype) <= max(kinds, default=-1)
        and torch.promote_types(val.dtype, dtype) != dtype
    ]
    is_comparison = _is_tensor(node) and node.meta["val"].dtype == torch.bool
    if is_comparison and not dtype.is_floating_point:
        return  # comparing integers in a wider dtype gives the same result
    for leaf in wider:
        node.replace_input_with(leaf, editor.call(torch.ops.aten._to_copy.default, leaf, dtype=dtype))


def _kind_of(dtype: torch.dtype) -> int:
    """Return the rank of a dtype's kind in type promotion: 0 boolean, 1 integer, 2 float, 3 complex."""
    return 0 if dtype == torch.bool else 3 if dtype.is_complex else 2 if dtype.is_floating_point else 1


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _kind(number: Any) -> bool | int | float:
    """Return a concrete bool, int or float of the same type as a number, which may be symbolic.

    Type promotion depends only on the type of the number, not on its value.
    """
    return number if isinstance(number, bool) else 1 if isinstance(number, (int, torch.SymInt)) else 1.0


@cache
def _decompositions() -> dict[OpOverload, Callable[..., Any]]:
    from edgecore.ir.torch_compat import core_aten_decompositions

    table = core_aten_decompositions()
    return {op: function for op, function in dict(table).items() if isinstance(op, OpOverload)}


def _is_primitive(target: Any) -> bool:
    return isinstance(target, OpOverload) and target.namespace == "prims" and target not in REWRITES


def _other_decomposition(target: OpOverload) -> dict[OpOverload, Callable[..., Any]]:
    """Return {target: decomposition} if torch decomposes `target` outside its core ATen decompositions, else {}.

    This search is needed because the set of core decompositions differs between versions of torch.
    """
    from edgecore.ir.torch_compat import decomposition_table

    if target in _decompositions() or can_decompose(target) or target not in decomposition_table:
        return {}
    return {target: decomposition_table[target]}


def inline_decomposition(graph_module: GraphModule, node: Node, mode: Any, layout_changed: set[Node]) -> list[Node]:
    """Replace a node by the nodes of edgecore's decomposition, or of torch's if edgecore has none.

    Args:
        graph_module: The graph of the node.
        node: The node.
        mode: The fake mode of the graph.
        layout_changed: Receives the new nodes whose shape, strides or dtype differ from `node`.

    Returns:
        The new nodes. Without a decomposition the list is empty, and nothing changes.

    Raises:
        CompileError: The node calls a function that is not an operator, or its decomposition cannot be inlined.
    """
    if not isinstance(node.target, OpOverload):
        raise CompileError(
            f"{describe(node)}: the edge dialect has no such function; "
            "its control flow is cond, map, scan and while_loop"
        )
    own = decomposition_of(node)
    other = {} if own is not None else _other_decomposition(node.target)
    table = {**_decompositions(), **other} if other else _decompositions()
    if own is None and node.target not in table and not can_decompose(node.target):
        return []  # keep the node: the verifier reports its operator
    leaves = node.all_input_nodes
    decomposed = call_of(node, own or node.target)

    def call(*values: Any) -> Any:
        result, val = decomposed(*values), node.meta["val"]
        if isinstance(result, torch.Tensor) and isinstance(val, torch.Tensor) and result.dtype != val.dtype:
            return result.to(val.dtype)  # torch decomposes cosine_similarity of float16 into float32 operators
        return result

    with without_onednn():
        module = trace(call, leaves, mode, table)
        if any(is_mutable(new) and _writes_to_view(new) for new in module.graph.nodes):
            module = trace(torch.func.functionalize(module, remove="mutations_and_views"), leaves, mode, table)
    traced = module.graph
    calls_traced = [new.target for new in traced.nodes if new.op == "call_function"]
    if [target for target in calls_traced if target is not operator.getitem] == [node.target]:
        return []  # the decomposition is the operator itself: keep the node, which the verifier reports
    if other and any(_is_primitive(target) for target in calls_traced):
        return []  # keep the operator, which the verifier reports: torch's primitives (`prims`) have no kernels
    editor = Editor(graph_module, node, mode)
    results = copy_traced(
        traced, leaves, editor, lambda new: None if _writes_to_view(new) else functional_form(new.target)
    )
    for old, new in replace_results(node, results):
        _note_layout(old, new, layout_changed)
    return editor.created


def _make_dense(node: Node, mode: Any, layout_changed: set[Node]) -> None:
    """Make the fake result of a preserved node dense, because a backend returns a dense tensor even for a view."""
    val = node.meta["val"]
    tensors = [item for item in (val if isinstance(val, (list, tuple)) else [val]) if isinstance(item, torch.Tensor)]
    if all(_is_dense(tensor) for tensor in tensors):
        return
    with mode:
        node.meta["val"] = dense(val)
    layout_changed.add(node)


def _make_results_representable(graph_module: GraphModule, mode: Any) -> None:
    """Make the operands of a node contiguous if its result has neither the default nor the channels-last dim order.

    For example, for the sum of a row [W] and a channels-last image [N, C, H, 1], eager mode derives strides from the
    image that match no dim order. If all operands are contiguous, the result is contiguous.
    """
    copied: set[Node] = set()
    while nodes := [node for node in calls(graph_module) if node not in copied and _has_other_dim_order(node)]:
        for node in nodes:
            copy_strided(Editor(graph_module, node, mode), node, node.all_input_nodes)
            node.meta["val"] = compute_val(mode, cast(Callable[..., Any], node.target), node.args, node.kwargs)
        copied.update(nodes)
        refresh_vals(graph_module, set(nodes), mode)


def _has_other_dim_order(node: Node) -> bool:
    if is_control_flow(node) or not _is_tensor(node) or free_unbacked_symbols(node.meta["val"]):
        return False
    return dim_order(node.meta["val"]) is None


def _is_dense(tensor: torch.Tensor) -> bool:
    if free_unbacked_symbols(tensor):
        return True  # keep the `val`, because strides with data-dependent sizes cannot be compared
    return dim_order(tensor) in (tuple(range(tensor.dim())), (0, 2, 3, 1))


def _note_layout(old: Node, new: Node, layout_changed: set[Node]) -> None:
    """Add `new` to `layout_changed` if `old` is in that set or has another layout than `new`.

    The users of nodes in `layout_changed` get new fake tensors.
    """
    if old in layout_changed or not same_layout(old.meta["val"], new.meta["val"]):
        layout_changed.add(new)


def _writes_to_view(new: Node) -> bool:
    """Return True if an in-place call has no functional form, or writes to a view and so also to the view's base."""
    if not isinstance(new.target, OpOverload) or functional_form(new.target) is None:
        return True
    written = new.args[0] if new.args else None
    target = written.target if isinstance(written, Node) else None
    return isinstance(target, OpOverload) and any(result.alias_info is not None for result in schema_of(target).returns)
