"""Lower linear layers, matrix products and attention to operator calls."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import NodeQuery, arguments_by_name, is_dequantize, rank, shape
from edgecore_vulkan.graph.calls import TensorValue
from edgecore_vulkan.graph.integer_weights import weight_of
from edgecore_vulkan.operators.builder import Builder, float_row, is_static, plain
from edgecore_vulkan.operators.elementwise import expanded
from edgecore_vulkan.passes.quantize import size_problem, weight_problem

aten = torch.ops.aten

_BLOCKED = torch.finfo(torch.float16).min
"""Added to masked scores. It is the minimum of float16, so it does not become infinite in any dtype."""


def _linear(b: Builder, node: Node) -> TensorValue:
    """Emit a linear layer; for ExecuTorch's delegate, which needs an input of 2 dims, flatten the leading dims."""
    args = arguments_by_name(node)
    x, output = b.value(args["input"]), b.result(node)
    weight = b.weight(args["weight"])
    bias = b.bias(args["bias"])
    if not b.profile.is_stock:
        b.call("aten.linear.default", [x, weight, bias], output)
        return output
    if len(x.shape) == 2:
        return _matrix_linear(b, x, weight, bias, output)
    rows = math.prod(x.shape[:-1])
    flat = b.view(x, (rows, x.shape[-1]), None if is_static(node) else (-1, x.shape[-1]))
    result = _matrix_linear(b, flat, weight, bias, TensorValue((rows, output.shape[-1]), x.dtype))
    sizes = [size if isinstance(size, int) else -1 for size in shape(node)]
    b.call("aten.view_copy.default", [result, sizes], output)
    return output


def _matrix_linear(
    b: Builder, x: TensorValue, weight: TensorValue, bias: TensorValue | None, output: TensorValue
) -> TensorValue:
    """Emit a linear layer for ExecuTorch's delegate; if weights are computed, emit a matrix product and a sum."""
    if weight.constant is not None and (bias is None or bias.constant is not None):
        b.call("aten.linear.default", [x, weight, bias], output)
        return output
    swapped = b.call("aten.permute_copy.default", [weight, [1, 0]], TensorValue(weight.shape[::-1], weight.dtype))
    product = b.call("aten.mm.default", [x, swapped], output if bias is None else output.like())
    if bias is not None:
        b.call("aten.add.Tensor", [product, bias, 1], output)
    return output


def _check_linear(query: Any) -> str | None:
    if rank(query.argument("weight")) != 2:
        return f"weights of {rank(query.argument('weight'))} dims"
    if not is_static(query.node) and (
        reason := size_problem(weight_of(query.argument("weight"), query.stored), query.profile)
    ):
        return reason
    symbolic = sum(not isinstance(size, int) for size in shape(query.node))
    weight = query.argument("weight")
    if is_dequantize(weight) and (reason := weight_problem(weight_of(weight, query.stored), query.profile)):
        return reason
    is_flattened = rank(query.node) > 2 and query.profile.is_stock
    if not is_static(query.argument("weight")):
        return "weights of symbolic size"
    return "several symbolic sizes" if is_flattened and symbolic > 1 else None


def _addmm(b: Builder, node: Node) -> TensorValue:
    """Emit a matrix product and a sum; if the second matrix and the bias are constant, emit a linear layer."""
    bias, left, right = node.args[:3]
    output = b.result(node)
    matrix, row = b.constant_of(right), b.constant_of(bias)
    if matrix is not None and row is not None and row.dim() == 1:
        weight = b.weights(matrix.t().contiguous())
        b.call("aten.linear.default", [b.value(left), weight, b.weights(row)], output)
        return output
    product = b.call("aten.mm.default", [b.value(left), b.value(right)], output.like())
    b.call("aten.add.Tensor", [product, b.value(bias), 1], output)
    return output


def _check_addmm(query: NodeQuery) -> str | None:
    return None if query.argument("alpha") == query.argument("beta") == 1 else "alpha or beta is not 1"


def _attention(b: Builder, node: Node) -> TensorValue:
    """Emit attention as `et_vk.sdpa` (query, key, value, added mask or None, scale or None).

    ExecuTorch's delegate needs a mask of the scores' shape; edgecore's delegate broadcasts a mask. If several query
    heads share a key head, their queries become additional rows of one query head.
    """
    args = arguments_by_name(node)
    query, key, value = (b.value(args[name]) for name in ("query", "key", "value"))
    output = b.result(node)
    scores = (*query.shape[:-1], key.shape[-2])
    together = query.shape[-3] // key.shape[-3] if len(query.shape) == 4 else 1
    mask = None
    if args["is_causal"]:
        mask = b.constant(torch.full(scores[-2:], _BLOCKED, dtype=query.dtype).triu(1))
    elif args["attn_mask"] is not None:
        mask = _added_mask(b, b.value(args["attn_mask"]), query)
    if mask is not None and b.profile.is_stock:
        mask = expanded(b, mask, scores)
    scale = None if args["scale"] is None else float(args["scale"])
    if together == 1:
        b.call("et_vk.sdpa.default", [query, key, value, mask, scale], output)
        return output
    rows = together * query.shape[2]
    length = rows if is_static(args["query"]) else -1
    folded = b.view(query, (*key.shape[:2], rows, query.shape[3]), [*key.shape[:2], length, query.shape[3]])
    result = TensorValue((*folded.shape[:3], value.shape[3]), output.dtype)
    b.call("et_vk.sdpa.default", [folded, key, value, _for_shared_heads(b, mask, together), scale], result)
    return b.view(result, output.shape, [*output.shape[:2], output.shape[2] if length == rows else -1, output.shape[3]])


def _for_shared_heads(b: Builder, mask: TensorValue | None, together: int) -> TensorValue | None:
    """Repeat the rows of a mask once for each query head that shares a head of keys and values."""
    if mask is None or len(mask.shape) < 2 or mask.shape[-2] == 1:
        return mask
    times = [1] * (len(mask.shape) - 2) + [together, 1]
    if mask.constant is not None:
        return b.constant(mask.constant.repeat(times))
    rows = TensorValue((*mask.shape[:-2], together * mask.shape[-2], mask.shape[-1]), mask.dtype)
    result: TensorValue = b.call("aten.repeat.default", [mask, times], rows)
    return result


def _added_mask(b: Builder, mask: TensorValue, like: TensorValue) -> TensorValue:
    """Return a mask that is added to scores; a boolean mask becomes 0 where true and -infinity where false."""
    if mask.dtype != torch.bool:
        return mask
    numbers = [b.scalar(0.0, like), b.scalar(-math.inf, like)]
    result: TensorValue = b.call("aten.where.self", [mask, *numbers], TensorValue(mask.shape, like.dtype))
    return result


def _check_attention(query: Any) -> str | None:
    if query.argument("dropout_p"):
        return "dropout_p"
    is_stock = query.profile.is_stock
    tensors = [query.argument(name) for name in ("query", "key", "value")]
    mask, is_causal = query.argument("attn_mask"), query.argument("is_causal")
    if query.argument("enable_gqa") and (reason := _grouped_reason(query, tensors)):
        return reason
    ranks = {rank(tensor) for tensor in tensors}
    if ranks != {4} and (is_stock or ranks != {3}):
        return "tensors without 4 dims"
    alike = tensors[1:] if query.argument("enable_gqa") else tensors
    if len({shape(tensor)[:-2] for tensor in alike}) > 1:
        return "different batches or heads"
    if is_stock and shape(tensors[2])[-1] != shape(tensors[0])[-1]:
        return "values of another size than queries"
    if mask is not None and (rank(mask) > rank(tensors[0]) or mask.meta["val"].dtype not in _mask_dtypes(query)):
        return "a mask of another dtype or of more dims"
    if (is_causal or (mask is not None and is_stock)) and not all(map(is_static, tensors)):
        return "a mask of symbolic size"
    return None


def _mask_dtypes(query: Any) -> tuple[torch.dtype, ...]:
    dtype = query.node.meta["val"].dtype
    return (dtype,) if query.profile.is_stock else (dtype, torch.bool)


def _grouped_reason(query: Any, tensors: list[Any]) -> str | None:
    """Return why attention with several query heads per key head (GQA) is not supported, or None if it is."""
    if query.profile.is_stock:
        return "enable_gqa"
    if any(rank(tensor) != 4 for tensor in tensors):
        return "enable_gqa without 4 dims"
    (batch, heads, _, width), (key_batch, key_heads, _, _) = (shape(tensor) for tensor in tensors[:2])
    if not all(isinstance(size, int) for size in (batch, heads, width, *shape(tensors[2])[-1:])):
        return "enable_gqa with a symbolic batch"
    if batch != key_batch or heads % key_heads:
        return "different batches, or heads that are no multiple"
    mask = query.argument("attn_mask")
    return "a mask for each head" if mask is not None and rank(mask) > 2 and shape(mask)[-3] != 1 else None


ROWS = [
    float_row(aten.linear.default, _linear, "weights of 2 dims", _check_linear, keep=True),
    float_row(aten.addmm.default, _addmm, "alpha and beta 1", _check_addmm),
    float_row(aten.mm.default, plain()),
    float_row(aten.bmm.default, plain()),
    float_row(
        aten.scaled_dot_product_attention.default,
        _attention,
        "4 dims, equal heads; boolean mask: runtime edgecore",
        _check_attention,
        keep=True,
        any_dtype=("attn_mask",),
    ),
]
