"""Complex tensors between a Fourier transform and real numbers: what moves them moves their real and imaginary parts.

The dialect has complex tensors only as results of a transform and as inputs of the reverse one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgecore.ir.graph import Editor
from edgecore.ir.op_args import argument
from edgecore.passes.decompose.rewrites import rewrites

aten = torch.ops.aten

_MOVES: dict[Any, tuple[Any, tuple[str, ...]]] = {
    target: (copy, dims)
    for copy, dims, *targets in (
        (aten.permute_copy.default, ("dims",), aten.permute.default, aten.permute_copy.default),
        (aten.transpose_copy.int, ("dim0", "dim1"), aten.transpose.int, aten.transpose_copy.int),
        (aten.slice_copy.Tensor, ("dim",), aten.slice.Tensor, aten.slice_copy.Tensor),
        (aten.select_copy.int, ("dim",), aten.select.int, aten.select_copy.int),
        (aten.squeeze_copy.dim, ("dim",), aten.squeeze.dim, aten.squeeze_copy.dim),
        (aten.squeeze_copy.dims, ("dim",), aten.squeeze.dims, aten.squeeze_copy.dims),
    )
    for target in targets
}
"""Target -> its copying form, and the names of the arguments that are dims."""

_CONVERSIONS = (aten._to_copy.default, aten.to.dtype)


def _parts(edit: Editor, value: Node) -> Node:
    """Real and imaginary parts of `value` in a last dim of 2; moves of `value` are applied to them."""
    value = _itself(value)
    if value.target not in _MOVES:
        return edit.call(aten.view_as_real_copy.default, value)
    copy, names = _MOVES[value.target]
    source = value.args[0]
    assert isinstance(source, Node)
    rank = source.meta["val"].dim()
    arguments = [spec.name for spec in copy._schema.arguments[1:]]
    values = [_counted(argument(value, name), rank) if name in names else argument(value, name) for name in arguments]
    if copy is aten.permute_copy.default:
        values[0].append(rank)
    return edit.call(copy, _parts(edit, source), *values)


def _itself(value: Node) -> Node:
    """The value that `value` is a copy of."""
    while value.target is aten.clone.default:
        value = value.args[0]  # type: ignore[assignment]
    return value


def _counted(dims: Any, rank: int) -> Any:
    """Dims from the front, where one more follows at the back."""
    return [dim % rank for dim in dims] if isinstance(dims, (list, tuple)) else dims % rank


def _complex_input(node: Node) -> Node | None:
    source = node.args[0]
    return source if isinstance(source, Node) and source.meta["val"].is_complex() else None


@rewrites(aten.view_as_real.default)
def _view_as_real(edit: Editor, node: Node) -> Node | None:
    source = _complex_input(node)
    return None if source is None else _parts(edit, source)


@rewrites(aten.abs.default)
def _abs(edit: Editor, node: Node) -> Node | None:
    source = _complex_input(node)
    if source is None:
        return None
    parts = _parts(edit, source)
    return edit.call(aten.sqrt.default, edit.call(aten.sum.dim_IntList, edit.call(aten.mul.Tensor, parts, parts), [-1]))


@rewrites(aten.angle.default)
def _angle(edit: Editor, node: Node) -> Node | None:
    source = _complex_input(node)
    if source is None:
        return None
    parts = _parts(edit, source)
    real, imaginary = (edit.call(aten.select_copy.int, parts, -1, index) for index in (0, 1))
    return edit.call(aten.atan2.default, imaginary, real)


@rewrites(aten._fft_c2c.default)
def _transform_of_real_numbers(edit: Editor, node: Node) -> Node | None:
    """Transform real numbers without making them complex first: `torch.fft.fft` of a real tensor does."""
    source = _itself(node.args[0])  # type: ignore[arg-type]
    if source.target not in _CONVERSIONS or not argument(node, "forward"):
        return None
    real = source.args[0]
    assert isinstance(real, Node)
    dtype = real.meta["val"].dtype
    if not dtype.is_floating_point or dtype.to_complex() is not node.meta["val"].dtype:
        return None
    with edit.mode:
        val = node.meta["val"].contiguous()
    normalization = argument(node, "normalization")
    return edit.call(aten._fft_r2c.default, real, argument(node, "dim"), normalization, False, val=val)


@rewrites(aten.permute.default, aten.transpose.int, aten.squeeze.dim, aten.squeeze.dims)
def _moved_transform(edit: Editor, node: Node) -> Node | None:
    """A moved transform of real numbers is the transform of the moved ones, along the dims where they went."""
    source = _complex_input(node)
    transform = None if source is None else _itself(source)
    if transform is None or transform.target is not aten._fft_r2c.default:
        return None
    rank, real = transform.meta["val"].dim(), transform.args[0]
    transformed = [dim % rank for dim in argument(transform, "dim")]
    if node.target in (aten.squeeze.dim, aten.squeeze.dims):
        given = _counted(argument(node, "dim"), rank)
        dropped = [dim for dim in (given if isinstance(given, list) else [given]) if _has_one(transform, dim)]
        if any(dim in transformed for dim in dropped):
            return None
        moved = edit.call(aten.squeeze_copy.dims, real, dropped)
        dims = [dim - sum(other < dim for other in dropped) for dim in transformed]
    else:
        order = list(range(rank))
        if node.target is aten.transpose.int:
            one, other = (argument(node, name) % rank for name in ("dim0", "dim1"))
            order[one], order[other] = other, one
        else:
            order = _counted(argument(node, "dims"), rank)
        moved = edit.call(aten.permute_copy.default, real, order)
        dims = [order.index(dim) for dim in transformed]
    with edit.mode:
        val = node.meta["val"].contiguous()
    kept = [argument(transform, name) for name in ("normalization", "onesided")]
    return edit.call(aten._fft_r2c.default, moved, dims, *kept, val=val)


def _has_one(node: Node, dim: int) -> bool:
    size = node.meta["val"].shape[dim]
    return isinstance(size, int) and size == 1
