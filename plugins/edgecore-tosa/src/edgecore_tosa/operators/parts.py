"""Lower operators that slice, concatenate or pad values to TOSA."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from edgecore.sdk import NodeQuery, is_quantize
from edgecore_tosa.builder.builder import Builder, Value
from edgecore_tosa.builder.operator_table import Query, Row
from edgecore_tosa.graph import Tensor
from edgecore_tosa.operators.movement import ANY, reshaped
from edgecore_tosa.schema import Op

aten = torch.ops.aten


def part(b: Builder, x: Value, dim: int, start: int, count: int) -> Value:
    """Slice a value: take `count` indices of dim `dim`, from index `start` on."""
    return Value(range_of(b, x.tensor, x.axis(dim), start, count), x.order, x.quantization)


def range_of(b: Builder, tensor: Tensor, axis: int, start: int, count: int) -> Tensor:
    """Slice a tensor: take `count` indices of dim `axis`, from index `start` on."""
    starts, sizes = [0] * tensor.rank, list(tensor.shape)
    starts[axis], sizes[axis] = start, count
    return b.slice(tensor, starts, sizes)


def joined(b: Builder, values: Sequence[Value], dim: int) -> Value:
    """Concatenate values of equal quantization; the result has the dim order of the first computed value."""
    order = next((value.order for value in values if value.tensor.data is None), values[0].order)
    tensor = b.concat([b.read(value, order) for value in values], order.index(dim))
    return Value(tensor, order, values[0].quantization)


def padded(b: Builder, tensor: Tensor, borders: Sequence[tuple[int, int]], number: float) -> Tensor:
    """Pad a tensor with a number: `borders` has (before, after) for each dim; negative sizes crop the tensor."""
    starts = [max(-before, 0) for before, _ in borders]
    sizes = [size + min(before, 0) + min(after, 0) for size, (before, after) in zip(tensor.shape, borders, strict=True)]
    kept = b.slice(tensor, starts, sizes)
    amounts = [max(amount, 0) for border in borders for amount in border]
    if not any(amounts):
        return kept
    shape = [size + sum(amounts[2 * dim : 2 * dim + 2]) for dim, size in enumerate(kept.shape)]
    return b.emit(Op.PAD, [kept, b.sizes(amounts), b.number(number, tensor.dtype)], shape, tensor.dtype)


def _cat(b: Builder) -> Value:
    values = [b.convert(b.value(node), b.quantization) for node in b.argument("tensors")]
    return joined(b, values, b.argument("dim") % len(b.shape))


def _stack(b: Builder) -> Value:
    values = [b.convert(b.value(node), b.quantization) for node in b.argument("tensors")]
    dim = b.argument("dim") % len(b.shape)
    shape = (*b.shape[:dim], 1, *b.shape[dim + 1 :])
    return joined(b, [reshaped(b, value, shape) for value in values], dim)


def _slice(b: Builder) -> Value:
    x = b.convert(b.input(), b.quantization)
    dim, step = b.argument("dim") % len(b.shape), b.argument("step")
    size, count = x.shape[dim], b.shape[dim]
    start = b.argument("start") or 0
    start = min(max(start + size if start < 0 else start, 0), size)
    if step == 1 or count == 1:
        return part(b, x, dim, start, count)
    return Value(_strided(b, x, x.axis(dim), start, count, step), x.order, x.quantization)


def _strided(b: Builder, x: Value, axis: int, start: int, count: int, step: int) -> Tensor:
    """Take `count` indices of a dim, `step` apart: split the dim into windows, and slice one index of each."""
    shape = x.tensor.shape
    missing = start + count * step - shape[axis]
    # Begin up to `step - 1` indices before `start`, if this saves padding at the end of the dim.
    first = start - max(min(missing, start, step - 1), 0)
    end = first + count * step - shape[axis]
    borders = [(0, 0)] * len(shape)
    borders[axis] = (-first, end)
    zero_point = x.zero_point
    whole = padded(b, x.tensor, borders, zero_point)
    before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    windows = b.reshape(whole, (before * count, step * after))
    column = range_of(b, windows, 1, (start - first) * after, after)
    return b.reshape(column, (*shape[:axis], count, *shape[axis + 1 :]))


def _select(b: Builder) -> Value:
    x = b.convert(b.input(), b.quantization)
    dim = b.argument("dim") % len(x.shape)
    return reshaped(b, part(b, x, dim, b.argument("index") % x.shape[dim], 1), b.shape)


def _split(b: Builder) -> list[Value]:
    assert b.node is not None
    x = b.input()
    dim = b.argument("dim") % len(x.shape)
    values, start = [], 0
    for val in b.node.meta["val"]:
        values.append(part(b, x, dim, start, val.shape[dim]))
        start += val.shape[dim]
    return values


def _unbind(b: Builder) -> list[Value]:
    x = b.input()
    dim = b.argument("dim") % len(x.shape)
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    return [reshaped(b, part(b, x, dim, index, 1), shape) for index in range(x.shape[dim])]


def _roll(b: Builder) -> Value:
    x = b.convert(b.input(), b.quantization)
    for shift, dim in zip(b.argument("shifts"), b.argument("dims"), strict=True):
        size = x.shape[dim]
        moved = shift % size
        if moved:
            x = joined(b, [part(b, x, dim, size - moved, moved), part(b, x, dim, 0, size - moved)], dim % len(b.shape))
    return x


def _pad(b: Builder) -> Value:
    x = b.convert(b.input(), b.quantization)
    pairs = _borders(b.argument("pad"), len(b.shape))
    value = b.argument("value")
    number = value if x.quantization is None else x.quantization.integer(value)
    return Value(padded(b, x.tensor, [pairs[dim] for dim in x.order], number), x.order, x.quantization)


def _borders(pad: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """Return (before, after) for each dim from the list `pad` of `constant_pad_nd`, which begins with the last dim."""
    pairs = [(pad[at], pad[at + 1]) for at in range(0, len(pad), 2)]
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


def _check_pad(query: NodeQuery) -> str | None:
    """Return a reason if the padding value exceeds the integers' range and no quantize node clamps it."""
    assert isinstance(query, Query)
    q, value = query.parameters.of(query.node), query.argument("value")
    if q is None or all(is_quantize(user) for user in query.node.users):
        return None
    low, high = ((limit - q.zero_point) * q.step for limit in (q.low, q.high))
    if low - q.step / 2 <= value <= high + q.step / 2:
        return None
    return f"a border of {value}, beyond the integers of its input"


ROWS = (
    Row(aten.cat.default, ANY, "", None, False, _cat),
    Row(aten.stack.default, ANY, "", None, False, _stack),
    Row(aten.slice_copy.Tensor, ANY, "", None, False, _slice),
    Row(aten.select_copy.int, ANY, "", None, False, _select),
    Row(aten.split_copy.Tensor, ANY, "", None, False, _split),
    Row(aten.split_with_sizes_copy.default, ANY, "", None, False, _split),
    Row(aten.unbind_copy.int, ANY, "", None, False, _unbind),
    Row(aten.roll.default, ANY, "with dims", lambda query: None if query.argument("dims") else "no dims", False, _roll),
    Row(aten.constant_pad_nd.default, ANY, "a number in the range of the input", _check_pad, False, _pad),
)
