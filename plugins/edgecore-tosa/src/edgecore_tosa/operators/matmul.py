"""Lower matrix products of computed values, and attention, to TOSA."""

from __future__ import annotations

import math
from math import prod

import torch

from edgecore.sdk import NodeQuery
from edgecore_tosa.builder.builder import Builder, Value
from edgecore_tosa.builder.operator_table import FLOAT, Lower, Query, Row, needs_real_numbers
from edgecore_tosa.graph import Tensor
from edgecore_tosa.operators.softmax import softmax_of_reals
from edgecore_tosa.schema import DType, Op

aten = torch.ops.aten

_SUMS = {DType.INT8: DType.INT32, DType.INT16: DType.INT48}
"""Accumulator dtypes of quantized products; floating-point products keep their dtype."""


def _product(b: Builder, left: Value, right: Value) -> Tensor:
    """Emit left @ right as one MATMUL; return its accumulators, [batch, rows, columns].

    If only the left operand has several batches, its matrices are stacked into one, so that the batch size is 1.
    """
    x, y = b.read(left), b.read(right)
    batch = 1 if right.shape[:-2].count(1) == len(right.shape) - 2 else prod(left.shape[:-2])
    inner, columns = right.shape[-2:]
    rows = x.elements // inner // batch
    factors = [b.reshape(x, (batch, rows, inner)), b.reshape(y, (batch, inner, columns))]
    zeros = [b.number(value.zero_point, value.tensor.dtype) for value in (left, right)]
    sums = _SUMS.get(x.dtype, x.dtype)
    return b.emit(Op.MATMUL, [*factors, *zeros], (batch, rows, columns), sums)


def _matmul(second: str) -> Lower:
    """Return the function that lowers a matrix product; `second` is the name of the product's second argument."""

    def lower(b: Builder) -> Value:
        left, right = b.input(), b.input(second)
        tensor = _product(b, left, right)
        scale = left.quantization.step * right.quantization.step if left.quantization and right.quantization else 1.0
        result = b.finish(tensor, scale, range(3))
        return Value(b.reshape(result.tensor, b.shape), tuple(range(len(b.shape))), result.quantization)

    return lower


def _addmm(b: Builder) -> Value:
    left, right, bias = b.input("mat1"), b.input("mat2"), b.input("self")
    tensor = b.reshape(_product(b, left, right), b.shape)
    row = b.read(bias)
    return Value(b.compute(Op.ADD, tensor, b.reshape(row, (*[1] * (2 - row.rank), *row.shape))), (0, 1))


def _attention(b: Builder) -> Value:
    """Emit floating-point attention: softmax(query @ key^T * scale + mask) @ value."""
    query, key, value = (b.input(name) for name in ("query", "key", "value"))
    scale = b.argument("scale")
    swapped = (*range(len(key.order) - 2), len(key.order) - 1, len(key.order) - 2)
    rows, columns = query.shape[-2], key.shape[-2]
    scores = b.reshape(_product(b, query, key.permuted(swapped)), (*query.shape[:-1], columns))
    scores = b.compute(Op.MUL, scores, query.shape[-1] ** -0.5 if scale is None else float(scale))
    mask = b.constant_of(b.argument("attn_mask"))
    if b.argument("is_causal"):
        mask = torch.ones(rows, columns, dtype=torch.bool).tril()
    if mask is not None:
        added = torch.zeros(mask.shape).masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else mask
        shape = (1,) * (scores.rank - added.dim()) + tuple(added.shape)
        scores = b.compute(Op.ADD, scores, b.constant(added.float().numpy().reshape(shape), scores.dtype))
    weights = softmax_of_reals(b, scores, scores.rank - 1)
    order = tuple(range(scores.rank))
    return Value(b.reshape(_product(b, Value(weights, order), value), b.shape), order)


def _check_attention(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    if query.parameters.of(query.node) is not None:
        return "only real numbers: the quantizer makes products and a softmax of it"
    if query.argument("dropout_p") or query.argument("enable_gqa"):
        return "dropout, or heads that share a key"
    batches = [query.sizes(name)[:-2] for name in ("query", "key", "value")]
    if batches != [batches[0]] * 3:
        return "batches " + ", ".join(str(list(batch)) for batch in batches)
    mask = query.argument("attn_mask")
    if mask is None:
        return None
    if not query.is_constant(mask):
        return "its mask is not a constant"
    tensor = query.constant(mask)
    hidden = ~tensor if tensor.dtype == torch.bool else tensor == -math.inf
    return "its mask hides all elements of a row" if bool(hidden.all(-1).any()) else None


def _check(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    q = query.parameters.of(query.argument("self"))
    if q is not None and q.dtype == DType.INT16 and query.spec.is_u55:
        return "int16, which this NPU does not multiply"
    return None


def _check_batches(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    left, right = query.sizes("self"), query.sizes("other")
    if len(left) < 2 or len(right) < 2:
        return "a factor that is a vector"
    shared = prod(right[:-2]) == 1 and len(right) <= len(left)
    return _check(query) if shared or left[:-2] == right[:-2] else f"batches {list(left[:-2])} and {list(right[:-2])}"


def _check_addmm(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    if query.parameters.of(query.node) is not None:
        return "only real numbers: the quantizer makes a product and a sum of it"
    return "alpha or beta is not 1" if (query.argument("alpha"), query.argument("beta")) != (1, 1) else None


_BATCHES = "2 dims or more, equal batches or one second matrix"

ROWS = (
    Row(aten.matmul.default, FLOAT, _BATCHES, _check_batches, True, _matmul("other"), on_u55=f"int8 only; {_BATCHES}"),
    Row(
        aten.scaled_dot_product_attention.default,
        FLOAT,
        "real numbers; equal batches, constant mask, no dropout",
        _check_attention,
        True,
        _attention,
        any_dtype=("attn_mask",),
        lacks=needs_real_numbers,
    ),
    Row(aten.bmm.default, FLOAT, "", _check, False, _matmul("mat2"), on_u55="int8 only"),
    Row(aten.mm.default, FLOAT, "", _check, False, _matmul("mat2"), on_u55="int8 only"),
    Row(
        aten.addmm.default,
        FLOAT,
        "real numbers; alpha and beta 1",
        _check_addmm,
        False,
        _addmm,
        lacks=needs_real_numbers,
    ),
)
