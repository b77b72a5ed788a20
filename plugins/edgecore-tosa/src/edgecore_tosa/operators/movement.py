"""Operators that move data."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from edgecore_tosa.builder import Builder, Value
from edgecore_tosa.operators.table import FLOAT, INTEGER, Row

aten = torch.ops.aten


def _view(b: Builder) -> Value:
    """A reshape. Dims of size 1 do not matter: (N, 1, 1, C) in memory is (N, C) already."""
    x = b.input()
    long = [dim for dim in x.order if x.shape[dim] != 1]
    tensor = x.tensor if long == sorted(long) else b.read(x)
    value = Value(b.reshape(tensor, b.shape), tuple(range(len(b.shape))), x.quantization)
    return b.convert(value, b.quantization)


def _reordered(b: Builder, dims: Sequence[int]) -> Value:
    """Another order of dims for the same tensor; it is transposed where an operator needs it."""
    x = b.input()
    return b.convert(Value(x.tensor, tuple(dims.index(dim) for dim in x.order), x.quantization), b.quantization)


def _permute(b: Builder) -> Value:
    return _reordered(b, [dim % len(b.shape) for dim in b.argument("dims")])


def _transpose(b: Builder) -> Value:
    dims = list(range(len(b.shape)))
    first, second = (b.argument(name) % len(dims) for name in ("dim0", "dim1"))
    dims[first], dims[second] = second, first
    return _reordered(b, dims)


def _same(b: Builder) -> Value:
    return b.convert(b.input(), b.quantization)


def _cat(b: Builder) -> Value:
    values = [b.convert(b.value(node), b.quantization) for node in b.argument("tensors")]
    order = next((value.order for value in values if value.tensor.data is None), values[0].order)
    axis = order.index(b.argument("dim") % len(order))
    return Value(b.concat([b.read(value, order) for value in values], axis), order, values[0].quantization)


def _slice(b: Builder) -> Value:
    x = b.convert(b.input(), b.quantization)
    axis = x.axis(b.argument("dim"))
    size = x.tensor.shape[axis]
    start = b.argument("start") or 0
    start = min(max(start + size if start < 0 else start, 0), size)
    lengths = list(x.tensor.shape)
    lengths[axis] = b.shape[b.argument("dim") % len(b.shape)]
    starts = [0] * len(lengths)
    starts[axis] = start
    return Value(b.slice(x.tensor, starts, lengths), x.order, x.quantization)


ANY = FLOAT + INTEGER

ROWS = (
    Row(aten.view_copy.default, ANY, "", None, False, _view),
    Row(aten.unsqueeze_copy.default, ANY, "", None, False, _view),
    Row(aten.squeeze_copy.dims, ANY, "", None, False, _view),
    Row(aten.permute_copy.default, ANY, "", None, False, _permute),
    Row(aten.transpose_copy.int, ANY, "", None, False, _transpose),
    Row(aten.clone.default, ANY, "", None, False, _same),
    Row(aten.cat.default, ANY, "", None, False, _cat),
    Row(aten.slice_copy.Tensor, ANY, "step must be 1",
        lambda query: None if query.argument("step") == 1 else "step is not 1", False, _slice),
)  # fmt: skip
