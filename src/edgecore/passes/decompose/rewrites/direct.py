"""Direct rewrites of frequent operators into the edge dialect: a few nodes replace one node, without tracing.

Each function takes an editor and a node, and returns the replacement of the node. Operators without a rewrite are
traced through a decomposition (`decompose.py`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import torch
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir.graph import Editor, describe, for_each, same_sizes, view_sizes
from edgecore.ir.op_args import argument
from edgecore.ir.operators.attention import scale_of
from edgecore.ir.torch_compat import OpOverload

aten = torch.ops.aten

Rewrite = Callable[[Editor, Node], "Node | None"]
"""A function of an editor and a node that returns the replacement of the node, the node itself to keep the node, or
None if the rewrite does not apply to the node."""

REWRITES: dict[OpOverload, Rewrite] = {}


def rewrites(*targets: OpOverload) -> Callable[[Rewrite], Rewrite]:
    """Register the decorated function as the rewrite of these operators."""

    def register(function: Rewrite) -> Rewrite:
        REWRITES.update(dict.fromkeys(targets, function))
        return function

    return register


def _input(node: Node) -> Node:
    source = node.args[0]
    assert isinstance(source, Node)
    return source


@rewrites(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
def _convolution(editor: Editor, node: Node) -> Node | None:
    rank = len(argument(node, "weight").meta["val"].shape) - 2
    if len(_input(node).meta["val"].shape) != rank + 2:
        return None
    stride, padding, dilation = (for_each(argument(node, name), rank) for name in ("stride", "padding", "dilation"))
    bias, groups = argument(node, "bias"), argument(node, "groups")
    options = (stride, padding, dilation, False, [0] * rank, groups)
    weight, val = argument(node, "weight"), node.meta["val"]
    return editor.call(aten.convolution.default, _input(node), weight, bias, *options, val=val)


@rewrites(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input)
def _transposed_convolution(editor: Editor, node: Node) -> Node | None:
    rank = len(argument(node, "weight").meta["val"].shape) - 2
    if len(_input(node).meta["val"].shape) != rank + 2:
        return None
    names = ("stride", "padding", "dilation", "output_padding")
    stride, padding, dilation, output_padding = (for_each(argument(node, name), rank) for name in names)
    bias, groups = argument(node, "bias"), argument(node, "groups")
    options = (stride, padding, dilation, True, output_padding, groups)
    weight, val = argument(node, "weight"), node.meta["val"]
    return editor.call(aten.convolution.default, _input(node), weight, bias, *options, val=val)


@rewrites(aten.linear.default)
def _linear_of_a_row(editor: Editor, node: Node) -> Node | None:
    """Make a vector operand a matrix with one row, because executorch's kernel of `linear` requires a matrix."""
    if _input(node).meta["val"].dim() != 1 or argument(node, "weight").meta["val"].dim() != 2:
        return None
    matrix = editor.call(aten.unsqueeze.default, _input(node), 0)
    rows = editor.call(aten.linear.default, matrix, argument(node, "weight"), argument(node, "bias"))
    return editor.call(aten.squeeze.dims, rows, [0], val=node.meta["val"])


@rewrites(aten.batch_norm.default)
def _batch_norm(editor: Editor, node: Node) -> Node | None:
    mean, var = argument(node, "running_mean"), argument(node, "running_var")
    if argument(node, "training") or mean is None or var is None:
        return None
    weight, bias, momentum, eps = (argument(node, name) for name in ("weight", "bias", "momentum", "eps"))
    val = node.meta["val"]
    empty = val.new_empty(0)
    target, vals = aten._native_batch_norm_legit_no_training.default, (val, empty, empty)
    normed = editor.call(target, _input(node), weight, bias, mean, var, momentum, eps, val=vals)
    return _first_result(editor, normed)


def _first_result(editor: Editor, node: Node) -> Node:
    return editor.call(operator.getitem, node, 0, val=node.meta["val"][0])


@rewrites(aten.max_pool2d.default)
def _max_pool2d(editor: Editor, node: Node) -> Node | None:
    if len(_input(node).meta["val"].shape) != 4:
        return None
    kernel = for_each(argument(node, "kernel_size"), 2)
    stride = for_each(argument(node, "stride") or kernel, 2)
    padding, dilation = (for_each(argument(node, name), 2) for name in ("padding", "dilation"))
    target, val = aten.max_pool2d_with_indices.default, node.meta["val"]
    vals = (val, torch.empty_like(val, dtype=torch.int64))
    pooled = editor.call(target, _input(node), kernel, stride, padding, dilation, argument(node, "ceil_mode"), val=vals)
    return _first_result(editor, pooled)


@rewrites(aten.adaptive_avg_pool2d.default)
def _adaptive_avg_pool2d(editor: Editor, node: Node) -> Node | None:
    source, size = _input(node), list(argument(node, "output_size"))
    if len(source.meta["val"].shape) != 4:
        return None
    if size == [1, 1]:
        return editor.call(aten.mean.dim, source, [-1, -2], True)
    return editor.call(aten._adaptive_avg_pool2d.default, source, size)


@rewrites(aten.flatten.using_ints, aten.reshape.default, aten.unflatten.int, aten.view_as.default)
def _reshape(editor: Editor, node: Node) -> Node | None:
    sizes = view_sizes(node.meta["val"].shape)
    return None if sizes is None else editor.call(aten.view_copy.default, _input(node), sizes)


@rewrites(aten.contiguous.default, aten.detach.default, aten.alias.default, aten.lift_fresh_copy.default)
def _identity(editor: Editor, node: Node) -> Node | None:
    source = _input(node)
    same = same_sizes(source.meta["val"].stride(), node.meta["val"].stride())
    return source if same else editor.call(aten.clone.default, source, memory_format=torch.contiguous_format)


@rewrites(torch.ops.prims.copy_strided.default)
def _copy_strided(editor: Editor, node: Node) -> Node:
    """Remove a copy that only changes strides, such as the last operator of torch's decomposition of `lerp`."""
    return _input(node)


@rewrites(aten._conj.default, aten.conj.default, aten.conj_physical.default)
def _conj(editor: Editor, node: Node) -> Node | None:
    if not _input(node).meta["val"].is_complex():
        return _input(node)
    return editor.call(aten._conj_physical.default, _input(node))


@rewrites(aten.item.default)
def _item(editor: Editor, node: Node) -> Node:
    # Keep the `val`, a symbolic number to which shapes of later tensors refer: a computed `val` would be a new symbol.
    return editor.call(aten._local_scalar_dense.default, _input(node), val=node.meta["val"])


@rewrites(aten.rrelu.default)
def _rrelu(editor: Editor, node: Node) -> Node | None:
    if argument(node, "training"):
        return None
    slope = (argument(node, "lower") + argument(node, "upper")) / 2
    return editor.call(aten.leaky_relu.default, _input(node), slope, val=node.meta["val"])


@rewrites(aten.silu.default)
def _silu(editor: Editor, node: Node) -> Node:
    source, val = _input(node), node.meta["val"]
    return editor.call(aten.mul.Tensor, source, editor.call(aten.sigmoid.default, source, val=val), val=val)


@rewrites(aten.relu6.default)
def _relu6(editor: Editor, node: Node) -> Node:
    return editor.call(aten.hardtanh.default, _input(node), 0.0, 6.0, val=node.meta["val"])


@rewrites(aten.hardsigmoid.default)
def _hardsigmoid(editor: Editor, node: Node) -> Node:
    source, val = _input(node), node.meta["val"]
    shifted = editor.call(aten.add.Scalar, source, 3.0, val=val)
    clamped = editor.call(aten.clamp.default, shifted, 0.0, 6.0, val=val)
    return editor.call(aten.div.Scalar, clamped, 6.0, val=val)


@rewrites(aten.hardswish.default)
def _hardswish(editor: Editor, node: Node) -> Node:
    return editor.call(aten.mul.Tensor, _input(node), _hardsigmoid(editor, node), val=node.meta["val"])


@rewrites(aten.matmul.default)
def _matmul(editor: Editor, node: Node) -> Node | None:
    left, right = node.args
    assert isinstance(left, Node) and isinstance(right, Node)
    ranks = (left.meta["val"].dim(), right.meta["val"].dim())
    if ranks == (2, 2):
        return editor.call(aten.mm.default, left, right, val=node.meta["val"])
    if ranks[0] != ranks[1] or ranks[0] < 3:
        return None
    a, b, out = left.meta["val"].shape, right.meta["val"].shape, node.meta["val"].shape
    if ranks == (3, 3) and a[0] == b[0]:
        return editor.call(aten.bmm.default, left, right, val=node.meta["val"])
    if list(a[:-2]) != list(b[:-2]) or not all(isinstance(size, int) for size in (*a, *b)):
        return None
    batch = 1
    for size in a[:-2]:
        batch = batch * size
    flat = [_view_copy(editor, x, [batch, *x.meta["val"].shape[-2:]]) for x in (left, right)]
    return _view_copy(editor, editor.call(aten.bmm.default, *flat), list(out))


def _view_copy(editor: Editor, source: Node, sizes: list[int]) -> Node:
    return editor.call(aten.view_copy.default, source, sizes, val=source.meta["val"].new_empty(sizes))


@rewrites(aten.expand_as.default)
def _expand_as(editor: Editor, node: Node) -> Node | None:
    sizes = list(node.meta["val"].shape)
    is_static = all(isinstance(size, int) for size in sizes)
    return editor.call(aten.expand_copy.default, _input(node), sizes) if is_static else None


@rewrites(aten.clamp_min.default)
def _clamp_min(editor: Editor, node: Node) -> Node | None:
    source, val = _input(node), node.meta["val"]
    if source.meta["val"].dtype != val.dtype:
        return None
    return editor.call(aten.clamp.default, source, argument(node, "min"), val=val)


@rewrites(aten.chunk.default)
def _chunk(editor: Editor, node: Node) -> Node | None:
    dim = argument(node, "dim")
    sizes = [part.shape[dim] for part in node.meta["val"]]
    if not all(isinstance(size, int) for size in sizes):
        return None
    return editor.call(aten.split_with_sizes_copy.default, _input(node), sizes, dim)


@rewrites(aten.softmax.int)
def _softmax(editor: Editor, node: Node) -> Node | None:
    if argument(node, "dtype") is not None:
        return None
    return editor.call(aten._softmax.default, _input(node), argument(node, "dim"), False, val=node.meta["val"])


@rewrites(aten.layer_norm.default)
def _layer_norm(editor: Editor, node: Node) -> Node:
    shape, eps = argument(node, "normalized_shape"), argument(node, "eps")
    weight, bias = argument(node, "weight"), argument(node, "bias")
    return _first_result(editor, editor.call(aten.native_layer_norm.default, _input(node), shape, weight, bias, eps))


@rewrites(aten.group_norm.default)
def _group_norm(editor: Editor, node: Node) -> Node | None:
    source = _input(node)
    shape = source.meta["val"].shape
    if not all(isinstance(size, int) for size in shape):
        return None
    pixels = math.prod(shape[2:])
    weight, bias, groups, eps = (argument(node, name) for name in ("weight", "bias", "num_groups", "eps"))
    target = aten.native_group_norm.default
    return _first_result(editor, editor.call(target, source, weight, bias, shape[0], shape[1], pixels, groups, eps))


@rewrites(aten.instance_norm.default)
def _instance_norm(editor: Editor, node: Node) -> Node | None:
    """Rewrite into a group norm with one group for each channel, if the input's own statistics are used."""
    source = _input(node)
    shape = source.meta["val"].shape
    if not argument(node, "use_input_stats") or not all(isinstance(size, int) for size in shape):
        return None
    weight, bias, eps = (argument(node, name) for name in ("weight", "bias", "eps"))
    target, pixels = aten.native_group_norm.default, math.prod(shape[2:])
    return _first_result(editor, editor.call(target, source, weight, bias, shape[0], shape[1], pixels, shape[1], eps))


@rewrites(aten.linalg_vector_norm.default)
def _vector_norm(editor: Editor, node: Node) -> Node | None:
    """Rewrite norms of complex numbers into norms of their absolute values, and Euclidean norms into square roots.

    torch's decomposition handles all other norms: other orders, results in another dtype, and float16 and bfloat16
    operands, whose squares it adds up in float32.
    """
    source, dtype = _input(node), argument(node, "dtype")
    order, dims, keepdim = (argument(node, name) for name in ("ord", "dim", "keepdim"))
    if source.meta["val"].is_complex():
        source = source if dtype is None else editor.call(aten._to_copy.default, source, dtype=dtype)
        sizes = editor.call(aten.abs.default, source)
        return editor.call(aten.linalg_vector_norm.default, sizes, order, dims, keepdim, val=node.meta["val"])
    if order != 2 or dtype is not None or source.meta["val"].dtype in (torch.float16, torch.bfloat16):
        return None
    dims = list(range(source.meta["val"].dim())) if dims is None else dims
    squares = editor.call(aten.mul.Tensor, source, source)
    total = editor.call(aten.sum.dim_IntList, squares, dims, keepdim)
    return editor.call(aten.sqrt.default, total, val=node.meta["val"])


@rewrites(torch.ops.prims.convert_element_type.default)
def _conversion(editor: Editor, node: Node) -> Node:
    """Rewrite the dtype conversions that torch's decompositions contain into `_to_copy`, which has kernels."""
    return editor.call(aten._to_copy.default, node.args[0], dtype=node.args[1])


_SHIFTS = {
    aten.__lshift__.Tensor: aten.bitwise_left_shift.Tensor,
    aten.__lshift__.Scalar: aten.bitwise_left_shift.Tensor_Scalar,
    aten.__rshift__.Tensor: aten.bitwise_right_shift.Tensor,
    aten.__rshift__.Scalar: aten.bitwise_right_shift.Tensor_Scalar,
}


@rewrites(*_SHIFTS)
def _shift(editor: Editor, node: Node) -> Node:
    assert isinstance(node.target, OpOverload)
    return editor.call(_SHIFTS[node.target], *node.args, val=node.meta["val"])


_SCALAR_FORMS = {
    getattr(aten, name).Tensor: getattr(aten, name).Scalar
    for name in ("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "remainder", "fmod")
} | {aten.div.Tensor_mode: aten.div.Scalar_mode}


@rewrites(*_SCALAR_FORMS)
def _scalar_operand(editor: Editor, node: Node) -> Node | None:
    """Rewrite `add.Tensor(x, 2.0)`, which `torch.export` makes, into `add.Scalar(x, 2.0)`."""
    left, right = node.args[:2]
    assert isinstance(node.target, OpOverload)
    if not isinstance(left, Node) or (isinstance(right, Node) and isinstance(right.meta["val"], torch.Tensor)):
        return None
    return editor.call(_SCALAR_FORMS[node.target], *node.args, val=node.meta["val"], **node.kwargs)


_COMPARED = [getattr(aten, name).Scalar for name in ("eq", "ne", "lt", "le", "gt", "ge", "remainder", "fmod")]


@rewrites(*_COMPARED)
def _rounded_number(editor: Editor, node: Node) -> Node:
    """Round a number to the dtype of a float16 or bfloat16 tensor, as eager PyTorch does.

    The kernels compute in float32, in which the float16 nearest to 0.1 does not equal the number 0.1.
    """
    number, dtype = node.args[1], _input(node).meta["val"].dtype
    if not isinstance(number, (int, float)) or dtype not in (torch.float16, torch.bfloat16):
        return node
    rounded = float(torch.tensor(number, dtype=dtype))
    if rounded == number or math.isnan(number):
        return node
    assert isinstance(node.target, OpOverload)
    return editor.call(node.target, _input(node), rounded, val=node.meta["val"])


@rewrites(aten.unique_consecutive.default)
def _checked_dim(editor: Editor, node: Node) -> None:
    """Refuse a dim that counts from the end: torch.export gives the results a wrong shape. Rewrite nothing.

    Raises:
        CompileError: The dim is negative.
    """
    dim = argument(node, "dim")
    if dim is not None and dim < 0:
        raise CompileError(
            f"{describe(node)}: torch.export records a wrong shape for the results of unique_consecutive with "
            f"dim={dim}; pass dim={dim + _input(node).meta['val'].dim()}"
        )


@rewrites(aten.scaled_dot_product_attention.default)
def _attention(editor: Editor, node: Node) -> Node | None:
    """Rewrite attention without a mask on [batch, heads, length, channels] into softmax(q k^T scale) v.

    torch's decomposition handles all other calls: with a mask or dropout, of other ranks, with dynamic sizes. Only with
    a mask, a row of scores can be masked completely, and torch's decomposition has operators for this case.
    """
    query, key, value = (argument(node, name) for name in ("query", "key", "value"))
    shapes = [list(x.meta["val"].shape) for x in (query, key, value)]
    plain = argument(node, "attn_mask") is None and not argument(node, "is_causal") and not argument(node, "dropout_p")
    static = all(isinstance(size, int) for shape in shapes for size in shape)
    if not plain or not static or any(len(shape) != 4 or shape[:2] != shapes[0][:2] for shape in shapes):
        return None
    batch, heads, length, _ = shapes[0]
    scaled = editor.call(aten.mul.Scalar, query, scale_of(node))
    flat = [
        editor.call(aten.view_copy.default, x, [batch * heads, *shape[2:]])
        for x, shape in zip((scaled, key, value), shapes, strict=True)
    ]
    scores = editor.call(aten.bmm.default, flat[0], editor.call(aten.permute_copy.default, flat[1], [0, 2, 1]))
    weights = editor.call(aten._softmax.default, scores, -1, False)
    mixed = editor.call(aten.bmm.default, weights, flat[2])
    return editor.call(aten.view_copy.default, mixed, [batch, heads, length, shapes[2][3]])
