"""Decompose operators before the quantization, so that their parts can be quantized separately.

Attention becomes two matmuls and a softmax, because the scores between them also need quantization parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgecore.sdk import Editor, argument, calls, fake_mode, replace
from edgecore.sdk.annotations import Role, with_roles
from edgecore.sdk.torch_compat import OpOverload, schema_of

aten = torch.ops.aten

MASKS = with_roles(Role.MASK)
"""Operators that fill masked elements with a number."""

SOFTMAX = frozenset({aten.softmax.int, aten._softmax.default, aten.log_softmax.int, aten._log_softmax.default})
"""Operators that ignore elements of minus infinity."""

HIDDEN = -1000.0
"""Mask values up to this number count as minus infinity, since the exponential of such a score is 0."""


def decompose(model: GraphModule) -> GraphModule:
    """Decompose attention, `addmm` and `baddbmm` in a model before its quantization; return the model."""
    mode = fake_mode(model)
    for node in calls(model, *_REWRITES):
        replacement = _REWRITES[node.target](model, Editor(model, node, mode))
        if replacement is not None:
            replace(node, replacement)
    model.graph.lint()
    model.recompile()
    return model


def is_mask(node: Node) -> bool:
    """Return True if an fx node fills masked elements with (about) minus infinity, which a softmax then ignores."""
    return node.target in MASKS and bool(argument(node, "value") <= HIDDEN)


def _attention(model: GraphModule, editor: Editor) -> Node | None:
    """Rewrite attention as matmuls and a softmax: softmax(query @ key^T * scale + mask) @ value.

    Return None for dropout, and for symbolic sizes or computed boolean masks, which TOSA does not support.
    """
    node = editor.origin
    query, key, value, mask = (argument(node, name) for name in ("query", "key", "value", "attn_mask"))
    if argument(node, "dropout_p") or argument(node, "enable_gqa"):
        return None
    shapes = [tuple(node.meta["val"].shape) for node in (query, key)]
    if not all(isinstance(size, int) for shape in shapes for size in shape):
        return None
    hidden = _hidden(model, node, mask, shapes[0][-2], shapes[1][-2])
    if mask is not None and hidden is None and mask.meta["val"].dtype == torch.bool:
        return None
    if hidden is not None and bool(hidden.all(-1).any()):
        return None  # for a row without visible keys, attention gives 0, but softmax NaN
    scale = argument(node, "scale")
    scores = editor.call(aten.matmul.default, query, editor.call(aten.transpose.int, key, -2, -1))
    scores = editor.call(aten.mul.Tensor, scores, 1 / math.sqrt(shapes[0][-1]) if scale is None else scale)
    if mask is not None and mask.meta["val"].dtype != torch.bool:
        scores = _masked_sum(model, editor, scores, mask)
    elif hidden is not None and bool(hidden.any()):
        scores = editor.call(aten.masked_fill.Scalar, scores, _constant(model, editor, hidden), -math.inf)
    return editor.call(aten.matmul.default, editor.call(aten.softmax.int, scores, -1), value)


def _hidden(model: GraphModule, node: Node, mask: Node | None, rows: int, columns: int) -> torch.Tensor | None:
    """Return a boolean tensor: True for scores that a constant mask hides. None if the mask is missing or computed."""
    if argument(node, "is_causal"):
        return ~torch.ones(rows, columns, dtype=torch.bool).tril()
    tensor = None if mask is None else _tensor(model, mask)
    if tensor is None:
        return None
    return ~tensor if tensor.dtype == torch.bool else tensor <= HIDDEN


def _masked_sum(model: GraphModule, editor: Editor, scores: Node, mask: Node) -> Node:
    """Emit scores + mask; infinite elements of a constant mask become a masked_fill, as they cannot be quantized."""
    tensor = _tensor(model, mask)
    if tensor is None:
        return editor.call(aten.add.Tensor, scores, mask)
    hidden = tensor <= HIDDEN
    finite = tensor.masked_fill(hidden, 0.0)
    if bool(finite.any()):
        scores = editor.call(aten.add.Tensor, scores, _constant(model, editor, finite))
    if bool(hidden.any()):
        scores = editor.call(aten.masked_fill.Scalar, scores, _constant(model, editor, hidden), -math.inf)
    return scores


def _sum_before_softmax(model: GraphModule, editor: Editor) -> Node | None:
    """Split a sum with a constant mask into a sum and a masked_fill; None if the mask hides nothing or a whole row."""
    node = editor.origin
    if not node.users or not all(user.target in SOFTMAX for user in node.users):
        return None
    scores, mask = argument(node, "self"), argument(node, "other")
    if not isinstance(mask, Node) or not isinstance(scores, Node):
        return None
    if _tensor(model, mask) is None:
        scores, mask = mask, scores
    tensor = _tensor(model, mask)
    if tensor is None or not tensor.is_floating_point():
        return None
    hidden = (tensor <= HIDDEN)[(None,) * (node.meta["val"].dim() - tensor.dim())]
    if not bool(hidden.any()) or any(bool(hidden.all(argument(user, "dim")).any()) for user in node.users):
        return None  # without a visible element in a row, masked_fill would change the softmax's result
    return _masked_sum(model, editor, scores, mask)


def _sum_with_product(model: GraphModule, editor: Editor) -> Node | None:
    """Rewrite `addmm` or `baddbmm` as a matmul and a sum: beta * self + alpha * first @ second."""
    first, second = ("mat1", "mat2") if editor.origin.target is aten.addmm.default else ("batch1", "batch2")
    node = editor.origin
    product = editor.call(aten.matmul.default, argument(node, first), argument(node, second))
    terms = [product, argument(node, "self")]
    for index, name in enumerate(("alpha", "beta")):
        if argument(node, name) != 1:
            terms[index] = editor.call(aten.mul.Tensor, terms[index], float(argument(node, name)))
    return editor.call(aten.add.Tensor, terms[1], terms[0], val=node.meta["val"])


def _filled(model: GraphModule, editor: Editor) -> Node | None:
    """If the mask of a masked_fill is computed from constants, replace it by one constant."""
    node = editor.origin
    mask = argument(node, "mask")
    tensor = None if mask.op == "get_attr" else _tensor(model, mask)
    if tensor is None:
        return None
    hidden = _constant(model, editor, tensor)
    return editor.call(aten.masked_fill.Scalar, argument(node, "self"), hidden, argument(node, "value"))


def _tensor(model: GraphModule, node: Node) -> torch.Tensor | None:
    """Return the tensor of a constant, or the result of operators on constants; None for other nodes."""
    needed: set[Node] = set()
    pending = [node]
    # do not recurse, because networks are deep; mark visited nodes, because many paths lead to a node
    while pending:
        source = pending.pop()
        if source in needed:
            continue
        if not _is_computable(model, source):
            return None
        needed.add(source)
        pending += source.all_input_nodes
    tensors: dict[Node, torch.Tensor] = {}
    for source in model.graph.nodes:
        if source not in needed:
            continue
        if source.op == "get_attr":
            tensors[source] = attrgetter(str(source.target))(model)
        else:
            args, kwargs = torch.fx.map_arg((source.args, source.kwargs), tensors.__getitem__)
            assert isinstance(source.target, OpOverload)
            tensors[source] = source.target(*args, **kwargs)
    return tensors[node]


def _is_computable(model: GraphModule, node: Node) -> bool:
    """Return True for a constant tensor, or for an operator whose result depends only on its inputs."""
    if node.op == "get_attr":
        return isinstance(attrgetter(str(node.target))(model), torch.Tensor)
    target = node.target
    if node.op != "call_function" or not isinstance(target, OpOverload) or schema_of(target).is_mutable:
        return False
    return isinstance(node.meta.get("val"), torch.Tensor) and torch.Tag.nondeterministic_seeded not in target.tags


def _constant(model: GraphModule, editor: Editor, tensor: torch.Tensor) -> Node:
    number = 0
    while hasattr(model, name := f"_attention_mask_{number}"):
        number += 1
    model.register_buffer(name, tensor)
    with editor.graph.inserting_before(editor.origin):
        node = editor.graph.get_attr(name)
    node.meta["val"] = editor.mode.from_tensor(tensor, static_shapes=True)
    return node


_REWRITES: dict[Any, Callable[[GraphModule, Editor], Node | None]] = {
    aten.scaled_dot_product_attention.default: _attention,
    aten.add.Tensor: _sum_before_softmax,
    aten.addmm.default: _sum_with_product,
    aten.baddbmm.default: _sum_with_product,
    aten.masked_fill.Scalar: _filled,
}
