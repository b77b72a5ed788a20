"""Scaled dot product attention, composed of matmuls and softmax.

XNNPACK's attention node is not used, because the delegate of executorch 1.5 does not support it. The blob has an
attention node only if the delegate keeps the KV cache. edgecore's delegate then computes attention itself, because
XNNPACK's matmul would copy the whole cache in each call to pack its second operand.
"""

from __future__ import annotations

from math import inf, prod, sqrt

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import FIRST, SubgraphValue
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.operators.cache import cache_of
from edgecore_xnnpack.operators.elementwise import binary, clamped, unary
from edgecore_xnnpack.operators.matmul import fully_connected
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten

MIN_FINITE = float(np.finfo(np.float32).min)
MIN_NORMAL = 2.0**-126
"""The smallest positive normal float32. A product with it tells -inf in a mask, which stays -inf, from finite numbers.

Products of finite float32 numbers are between -4 and 4.
"""


def _check_attention(query: Query) -> str | None:
    if query.argument("dropout_p") != 0:
        return "dropout"
    q, k, v = (query.shape_of(query.argument(name)) for name in ("query", "key", "value"))
    if len(q) < 3 or not len(q) == len(k) == len(v):
        return f"ranks {len(q)}, {len(k)} and {len(v)}"
    heads = query.argument("enable_gqa")
    if (q[:-3] if heads else q[:-2]) != (k[:-3] if heads else k[:-2]) or k[:-2] != v[:-2]:
        return f"batches {list(q[:-2])}, {list(k[:-2])} and {list(v[:-2])}"
    mask = query.argument("attn_mask")
    if mask is None:
        return None
    if not query.becomes_constant(mask) and mask.meta["val"].dtype not in (torch.float32, torch.float16):
        return f"mask of dtype {str(mask.meta['val'].dtype).removeprefix('torch.')} that is not constant"
    return None if len(mask.meta["val"].shape) <= len(q) else f"mask of rank {len(mask.meta['val'].shape)}"


@lowers(aten.scaled_dot_product_attention.default, check=_check_attention, do_not_decompose=True,
        any_dtype=("attn_mask",),
        constraints="rank 3 or more, equal batches; a mask of floating point, or constant")  # fmt: skip
def _attention(low: Lowering, node: Node) -> SubgraphValue:
    """Emit softmax(scale * q k^T + mask) v.

    If the mask of a row is -inf everywhere, the result of this row must be 0, as in ATen, but the softmax of its scores
    is NaN. So scores are clamped to finite numbers, which avoids NaN, and the result of such a row is multiplied by 0
    (`_seen`). In grouped-query attention, query heads that share a key head become rows of the same matmul. If the
    delegate keeps the KV caches, an attention node is emitted instead.
    """
    key, value = low.argument("key"), low.argument("value")
    caches = _caches(low, key, value)
    q, k, v = (low.value(source) for source in (low.argument("query"), *(caches or (key, value))))
    scale = 1 / sqrt(q.shape[-1]) if low.argument("scale") is None else float(low.argument("scale"))
    scores_shape = (*q.shape[:-1], k.shape[-2])
    if caches:
        mask = _mask(low, scores_shape)
        inputs = [q, k, v, low.scalar(scale)] + ([] if mask is None else [mask])
        return low.emit(g.ScaledDotProductAttention, inputs, (*q.shape[:-1], v.shape[-1]), FIRST)
    grouped = (*k.shape[:-2], prod(q.shape[:-1]) // prod(k.shape[:-2]))
    scaled = binary(low, g.Multiply, q, low.scalar(scale))
    rank = len(k.shape)
    transposed = low.permute(k, (*range(rank - 2), rank - 1, rank - 2))
    scores = low.emit(
        g.BatchMatrixMultiply,
        [low.reshape(scaled, (*grouped, q.shape[-1])), transposed],
        (*grouped, k.shape[-2]),
        FIRST,
    )
    mask = _mask(low, scores_shape)
    seen = None
    if mask is not None:
        seen = _seen(low, mask)
        masked = binary(low, g.Add, low.reshape(scores, scores_shape), mask)
        scores = low.reshape(clamped(low, masked, MIN_FINITE, inf) if seen is not None else masked, scores.shape)
    weights = low.emit(g.Softmax, [scores], scores.shape, FIRST)
    result = low.emit(g.BatchMatrixMultiply, [weights, v], (*grouped, v.shape[-1]), FIRST)
    result = low.reshape(result, (*q.shape[:-1], v.shape[-1]))
    return result if seen is None else binary(low, g.Multiply, result, seen)


def _caches(low: Lowering, key: Node, value: Node) -> tuple[Node, Node] | None:
    """Return the updates of the KV caches that attention reads as key and value.

    Return None if key or value is not a cache of the delegate, or if their shapes differ in another dim than the last.
    """
    keys, values = cache_of(key), cache_of(value)
    if keys is None or values is None or not (low.has_value(keys) and low.has_value(values)):
        return None
    return (keys, values) if low.value(keys).shape[:-1] == low.value(values).shape[:-1] else None


def _mask(low: Lowering, shape: tuple[int, ...]) -> SubgraphValue | None:
    """Return the mask that is added to the scores; a boolean mask becomes 0 where it is true and -inf elsewhere.

    Return None if there is no mask, or if it is 0 everywhere. `shape` is the shape of the scores.
    """
    node = low.argument("attn_mask")
    tensor = low.tensor(node)
    if low.argument("is_causal"):
        tensor = torch.ones(shape[-2:], dtype=torch.bool).tril()
    elif node is None:
        return None
    elif tensor is None:
        return low.value(node)
    if tensor.dtype == torch.bool:
        tensor = torch.zeros(tensor.shape).masked_fill(~tensor, -inf)
    added = tensor.float().numpy()
    return None if not added.any() else low.constant(added)


def _seen(low: Lowering, mask: SubgraphValue) -> SubgraphValue | None:
    """Return a factor for each row of a mask: 0 if the row is -inf everywhere, else 1. Return None if all are 1.

    XNNPACK has no comparison, so the factor for a mask that is computed at run time is
    min(1, sum over a row of 64 * exp(m * 2^-126)). exp(-inf) is 0. For a finite m, the exponent is above -4, and
    64 * exp(-4) = 1.17, so that one finite element suffices for 1. This includes the minimum finite float32, which
    some masks use in place of -inf: such a row counts as seen, as in ATen. A NaN in the mask is not supported.
    """
    if mask.constant is not None:
        blind = np.isneginf(mask.constant).all(axis=-1, keepdims=True)
        return low.constant(np.where(blind, 0.0, 1.0)) if blind.any() else None
    with low.in_fp32():  # in fp16, 2^-126 would be 0, and -inf * 0 is NaN
        finite = unary(low, g.Exp, binary(low, g.Multiply, mask, low.scalar(MIN_NORMAL)))
    count = fully_connected(low, finite, np.full((1, mask.shape[-1]), 64.0, np.float32), None)
    return clamped(low, count, 0.0, 1.0)
