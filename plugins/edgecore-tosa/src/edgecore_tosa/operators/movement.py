"""Lower operators that reshape, permute or repeat a value to TOSA."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from edgecore.sdk import NodeQuery
from edgecore_tosa.builder.builder import Builder, Value
from edgecore_tosa.builder.operator_table import FLOAT, INTEGER, MAX_RANK, Query, Row
from edgecore_tosa.graph import Tensor
from edgecore_tosa.schema import ATTRIBUTES, Op

aten = torch.ops.aten

ANY = FLOAT + INTEGER


def matched_dims(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Pair groups of dims of a shape with groups of dims of its view; the groups are as small as possible.

    The two groups of a pair have equal numbers of elements: the shapes (6, 4) and (2, 3, 4) give the pairs ([0], [0,
    1]) and ([1], [2]). Dims of size 1 belong to no group.
    """
    old, new = ([dim for dim, size in enumerate(shape) if size != 1] for shape in (before, after))
    groups: list[tuple[list[int], list[int]]] = []
    while old:
        pair = ([old.pop(0)], [new.pop(0)])
        while (sizes := [prod(s[dim] for dim in dims) for s, dims in zip((before, after), pair, strict=True)])[
            0
        ] != sizes[1]:
            smaller = sizes.index(min(sizes))
            pair[smaller].append((old, new)[smaller].pop(0))
        groups.append(pair)
    return groups


def reshaped(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """Return a view of a value with the shape `shape`.

    If the view merges dims that are not adjacent in memory, the value is transposed first. Otherwise no data moves:
    viewing an NHWC image as [N, C, H * W] gives [N, H * W, C] in memory. Dims of size 1 do not matter.
    """
    groups = matched_dims(x.shape, shape)
    groups.sort(key=lambda pair: x.order.index(pair[0][0]))
    dims = [dim for before, _ in groups for dim in before]
    short = [dim for dim, size in enumerate(x.shape) if size == 1]
    in_place = dims == [dim for dim in x.order if dim not in short]
    tensor = x.tensor if in_place else b.read(x, [*short, *dims])
    order = [dim for _, after in groups for dim in after]
    for dim, size in enumerate(shape):
        if size == 1:  # put a dim of size 1 right after the preceding dim
            order.insert(order.index(dim - 1) + 1 if dim else 0, dim)
    return Value(b.reshape(tensor, [shape[dim] for dim in order]), tuple(order), x.quantization)


def tiled(b: Builder, x: Value, counts: Sequence[int]) -> Value:
    """Repeat a value `counts[i]` times along each dim i."""
    if set(counts) <= {1}:
        return x
    multiples = [counts[dim] for dim in x.order]
    shape = [size * count for size, count in zip(x.tensor.shape, multiples, strict=True)]
    tensor = b.emit(Op.TILE, [x.tensor, b.sizes(multiples)], shape, x.tensor.dtype)
    return Value(tensor, x.order, x.quantization)


def reversed_along(b: Builder, tensor: Tensor, axis: int) -> Tensor:
    """Reverse the order of the indices of a tensor along dim `axis`."""
    # For Ethos-U55 and U65, Arm's compiler Vela cannot reverse the last dim, so add a dim of size 1 after it.
    if axis == tensor.rank - 1:
        columns = b.reshape(tensor, (tensor.elements // tensor.shape[axis], tensor.shape[axis], 1))
        return b.reshape(reversed_along(b, columns, 1), tensor.shape)
    return b.emit(Op.REVERSE, [tensor], tensor.shape, tensor.dtype, ATTRIBUTES[Op.REVERSE](axis))


def _view(b: Builder) -> Value:
    return b.convert(reshaped(b, b.input(), b.shape), b.quantization)


def _reordered(b: Builder, dims: Sequence[int]) -> Value:
    """Permute the dims of the input without moving data; an operator that needs another order transposes later."""
    return b.convert(b.input().permuted(dims), b.quantization)


def _permute(b: Builder) -> Value:
    return _reordered(b, [dim % len(b.shape) for dim in b.argument("dims")])


def _transpose(b: Builder) -> Value:
    dims = list(range(len(b.shape)))
    first, second = (b.argument(name) % len(dims) for name in ("dim0", "dim1"))
    dims[first], dims[second] = second, first
    return _reordered(b, dims)


def _with_leading_dims(b: Builder) -> Value:
    """Return the input with leading dims of size 1 added, up to the rank of the result."""
    x = b.convert(b.input(), b.quantization)
    return reshaped(b, x, (*[1] * (len(b.shape) - len(x.shape)), *x.shape))


def _expand(b: Builder) -> Value:
    x = _with_leading_dims(b)
    return tiled(b, x, [size // own for size, own in zip(b.shape, x.shape, strict=True)])


def _repeat(b: Builder) -> Value:
    return tiled(b, _with_leading_dims(b), b.argument("repeats"))


def _flip(b: Builder) -> Value:
    x = b.convert(b.input(), b.quantization)
    tensor = x.tensor
    for dim in b.argument("dims"):
        tensor = reversed_along(b, tensor, x.axis(dim))
    return Value(tensor, x.order, x.quantization)


def _shuffle(b: Builder) -> Value:
    """Emit pixel_shuffle, which moves channels to blocks of pixels: (C * r * r, H, W) to (C, H * r, W * r)."""
    x, r = b.convert(b.input(), b.quantization), b.argument("upscale_factor")
    *batch, channels, rows, columns = x.shape
    n = len(batch)
    blocks = reshaped(b, x, (*batch, channels // r**2, r, r, rows, columns))
    dims = [*range(n + 1), n + 3, n + 1, n + 4, n + 2]
    return reshaped(b, blocks.permuted(dims), b.shape)


def _unshuffle(b: Builder) -> Value:
    """Emit pixel_unshuffle, which moves blocks of pixels to channels: (C, H * r, W * r) to (C * r * r, H, W)."""
    x, r = b.convert(b.input(), b.quantization), b.argument("downscale_factor")
    *batch, channels, rows, columns = x.shape
    n = len(batch)
    blocks = reshaped(b, x, (*batch, channels, rows // r, r, columns // r, r))
    dims = [*range(n + 1), n + 2, n + 4, n + 1, n + 3]
    return reshaped(b, blocks.permuted(dims), b.shape)


def _check_shuffle(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    rank = len(query.sizes("self"))
    return f"an input with {rank} dims, more than {MAX_RANK - 2}" if rank > MAX_RANK - 2 else None


ROWS = (
    Row(aten.view_copy.default, ANY, "", None, False, _view),
    Row(aten.unsqueeze_copy.default, ANY, "", None, False, _view),
    Row(aten.squeeze_copy.dims, ANY, "", None, False, _view),
    Row(aten.permute_copy.default, ANY, "", None, False, _permute),
    Row(aten.transpose_copy.int, ANY, "", None, False, _transpose),
    Row(aten.expand_copy.default, ANY, "", None, False, _expand),
    Row(aten.repeat.default, ANY, "", None, False, _repeat),
    Row(aten.flip.default, ANY, "", None, False, _flip),
    Row(aten.pixel_shuffle.default, ANY, "at most 4 dims", _check_shuffle, False, _shuffle),
    Row(aten.pixel_unshuffle.default, ANY, "at most 4 dims", _check_shuffle, False, _unshuffle),
)
