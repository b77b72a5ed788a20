"""Rewrites for complex tensors between a Fourier transform and real numbers.

The dialect has complex tensors only as results of a transform and as inputs of the inverse transform. Operators that
move data of a complex tensor are rewritten to move its real and imaginary parts.
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
"""Operator that moves data -> its copy variant, and the names of its arguments that are dims."""

_CONVERSIONS = (aten._to_copy.default, aten.to.dtype)


def _parts(editor: Editor, value: Node) -> Node:
    """Return the real and imaginary parts of `value` in a new last dim of size 2.

    If `value` is the result of data movement, the same movement is applied to the parts of its source.
    """
    value = _skip_copies(value)
    if value.target not in _MOVES:
        return editor.call(aten.view_as_real_copy.default, value)
    copy, names = _MOVES[value.target]
    source = value.args[0]
    assert isinstance(source, Node)
    rank = source.meta["val"].dim()
    arguments = [spec.name for spec in copy._schema.arguments[1:]]
    values = [
        _from_front(argument(value, name), rank) if name in names else argument(value, name) for name in arguments
    ]
    if copy is aten.permute_copy.default:
        values[0].append(rank)  # the dim of the parts stays last
    return editor.call(copy, _parts(editor, source), *values)


def _skip_copies(value: Node) -> Node:
    """Return the value of which `value` is a copy, or `value` itself."""
    while value.target is aten.clone.default:
        value = value.args[0]  # type: ignore[assignment]
    return value


def _from_front(dims: Any, rank: int) -> Any:
    """Count negative dims from the front, since the parts have one more dim at the back."""
    return [dim % rank for dim in dims] if isinstance(dims, (list, tuple)) else dims % rank


def _complex_input(node: Node) -> Node | None:
    source = node.args[0]
    return source if isinstance(source, Node) and source.meta["val"].is_complex() else None


@rewrites(aten.view_as_real.default)
def _view_as_real(editor: Editor, node: Node) -> Node | None:
    source = _complex_input(node)
    return None if source is None else _parts(editor, source)


@rewrites(aten.abs.default)
def _abs(editor: Editor, node: Node) -> Node | None:
    source = _complex_input(node)
    if source is None:
        return None
    parts = _parts(editor, source)
    return editor.call(
        aten.sqrt.default, editor.call(aten.sum.dim_IntList, editor.call(aten.mul.Tensor, parts, parts), [-1])
    )


@rewrites(aten.angle.default)
def _angle(editor: Editor, node: Node) -> Node | None:
    source = _complex_input(node)
    if source is None:
        return None
    parts = _parts(editor, source)
    real, imaginary = (editor.call(aten.select_copy.int, parts, -1, index) for index in (0, 1))
    return editor.call(aten.atan2.default, imaginary, real)


@rewrites(aten.clone.default)
def _clone(editor: Editor, node: Node) -> Node | None:
    """Drop a copy that leaves the layout as it is: the dialect has no complex copies."""
    source = _complex_input(node)
    is_identity = source is not None and source.meta["val"].stride() == node.meta["val"].stride()
    return source if is_identity else None


@rewrites(aten._fft_c2c.default)
def _transform_of_real_numbers(editor: Editor, node: Node) -> Node | None:
    """Transform a real tensor directly; `torch.fft.fft` converts it to complex numbers first."""
    source = _skip_copies(node.args[0])  # type: ignore[arg-type]
    if source.target not in _CONVERSIONS or not argument(node, "forward"):
        return None
    real = source.args[0]
    assert isinstance(real, Node)
    dtype = real.meta["val"].dtype
    if not dtype.is_floating_point or dtype.to_complex() is not node.meta["val"].dtype:
        return None
    with editor.mode:
        val = node.meta["val"].contiguous()
    normalization = argument(node, "normalization")
    return editor.call(aten._fft_r2c.default, real, argument(node, "dim"), normalization, False, val=val)


@rewrites(aten.permute.default, aten.transpose.int, aten.squeeze.dim, aten.squeeze.dims)
def _moved_transform(editor: Editor, node: Node) -> Node | None:
    """Permute or squeeze the real input of a transform instead of its complex result, and adjust the dims of the transform.

    The dialect cannot permute or squeeze complex tensors.
    """
    source = _complex_input(node)
    transform = None if source is None else _skip_copies(source)
    if transform is None or transform.target is not aten._fft_r2c.default:
        return None
    rank, real = transform.meta["val"].dim(), transform.args[0]
    transformed = [dim % rank for dim in argument(transform, "dim")]
    if node.target in (aten.squeeze.dim, aten.squeeze.dims):
        squeezed = _from_front(argument(node, "dim"), rank)
        squeezed = squeezed if isinstance(squeezed, list) else [squeezed]
        dropped = [dim for dim in squeezed if _has_size_one(transform, dim)]
        if any(dim in transformed for dim in dropped):
            return None
        moved = editor.call(aten.squeeze_copy.dims, real, dropped)
        dims = [dim - sum(other < dim for other in dropped) for dim in transformed]
    else:
        order = list(range(rank))
        if node.target is aten.transpose.int:
            dim0, dim1 = (argument(node, name) % rank for name in ("dim0", "dim1"))
            order[dim0], order[dim1] = dim1, dim0
        else:
            order = _from_front(argument(node, "dims"), rank)
        moved = editor.call(aten.permute_copy.default, real, order)
        dims = [order.index(dim) for dim in transformed]
    with editor.mode:
        val = node.meta["val"].contiguous()
    options = [argument(transform, name) for name in ("normalization", "onesided")]
    return editor.call(aten._fft_r2c.default, moved, dims, *options, val=val)


def _has_size_one(node: Node, dim: int) -> bool:
    size = node.meta["val"].shape[dim]
    return isinstance(size, int) and size == 1
