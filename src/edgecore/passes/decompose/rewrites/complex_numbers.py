"""Rewrites of operators on complex tensors into operators on the tensors' real and imaginary parts.

The dialect has complex tensors only as results of a Fourier transform and as inputs of the inverse transform. All other
complex values are computed as real and imaginary parts (`complex_parts.py`).
"""

from __future__ import annotations

import torch
from torch.fx import Node

from edgecore.ir.dialect.dim_orders import dim_order
from edgecore.ir.graph import Editor
from edgecore.ir.op_args import argument
from edgecore.ir.torch_compat import OpOverload
from edgecore.passes.decompose.decompositions.complex_parts import (
    from_front,
    has_kernels,
    parts,
    real_inverse,
    skip_copies,
    split,
)
from edgecore.passes.decompose.rewrites.direct import rewrites

aten = torch.ops.aten

_CONVERSIONS = (aten._to_copy.default, aten.to.dtype)


def _complex_input(node: Node) -> Node | None:
    source = node.args[0]
    return source if isinstance(source, Node) and source.meta["val"].is_complex() else None


@rewrites(aten.view_as_real.default)
def _view_as_real(editor: Editor, node: Node) -> Node | None:
    source = _complex_input(node)
    return None if source is None else parts(editor, source)


@rewrites(aten.view_as_real_copy.default)
def _viewed_parts(editor: Editor, node: Node) -> Node:
    """Replace `view_as_real_copy(view_as_complex(x))`, which torch's decompositions contain, by x."""
    source = _complex_input(node)
    made = (aten.view_as_complex.default, aten.view_as_complex_copy.default)
    return parts(editor, source) if source is not None and source.target in made else node


@rewrites(aten.complex.default)
def _complex(editor: Editor, node: Node) -> Node:
    """Keep `complex(a, b)`, because rewritten users read a and b; torch's decomposition would write into views."""
    return node


@rewrites(aten.polar.default)
def _polar(editor: Editor, node: Node) -> Node:
    size, angle = node.args
    real, imaginary = (
        editor.call(aten.mul.Tensor, size, editor.call(wave, angle)) for wave in (aten.cos.default, aten.sin.default)
    )
    return editor.call(aten.complex.default, real, imaginary)


@rewrites(aten.abs.default)
def _abs(editor: Editor, node: Node) -> Node | None:
    source = _complex_input(node)
    if source is None:
        return None
    both = parts(editor, source)
    return editor.call(
        aten.sqrt.default, editor.call(aten.sum.dim_IntList, editor.call(aten.mul.Tensor, both, both), [-1])
    )


@rewrites(aten.angle.default)
def _angle(editor: Editor, node: Node) -> Node | None:
    source = _complex_input(node)
    if source is None:
        return None
    real, imaginary = split(editor, parts(editor, source))
    return editor.call(aten.atan2.default, imaginary, real)


@rewrites(aten.clone.default)
def _clone(editor: Editor, node: Node) -> Node | None:
    """Drop a copy that keeps the layout, because the dialect has no complex copies."""
    source = _complex_input(node)
    is_identity = source is not None and source.meta["val"].stride() == node.meta["val"].stride()
    return source if is_identity else None


@rewrites(aten._fft_c2c.default)
def _transform_of_real_numbers(editor: Editor, node: Node) -> Node | None:
    """Transform a real tensor directly, without the conversion to complex numbers that `torch.fft.fft` inserts."""
    source = skip_copies(node.args[0])  # type: ignore[arg-type]
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


@rewrites(aten._fft_r2c.default)
def _transform_of_inner_dims(editor: Editor, node: Node) -> Node:
    """If the result's strides in eager mode match no dim order, replace the call by one with a contiguous result."""
    assert isinstance(node.target, OpOverload)
    return node if dim_order(node.meta["val"]) is not None else editor.call(node.target, *node.args)


@rewrites(aten._fft_c2r.default)
def _inverse_transform(editor: Editor, node: Node) -> Node | None:
    source = node.args[0]
    assert isinstance(source, Node)
    inverse = None if has_kernels(source) else real_inverse(editor, node)
    return inverse or _transform_of_inner_dims(editor, node)


@rewrites(aten.permute.default, aten.transpose.int, aten.squeeze.dim, aten.squeeze.dims)
def _moved_transform(editor: Editor, node: Node) -> Node | None:
    """Permute or squeeze the real input of a transform instead of its complex result, and adjust the transform's dims.

    The dialect cannot permute or squeeze complex tensors.
    """
    source = _complex_input(node)
    transform = None if source is None else skip_copies(source)
    if transform is None or transform.target is not aten._fft_r2c.default:
        return None
    rank, real = transform.meta["val"].dim(), transform.args[0]
    transformed = [dim % rank for dim in argument(transform, "dim")]
    if node.target in (aten.squeeze.dim, aten.squeeze.dims):
        squeezed = from_front(argument(node, "dim"), rank)
        squeezed = squeezed if isinstance(squeezed, list) else [squeezed]
        dropped = [dim for dim in squeezed if _has_size_one(transform, dim)]
        if any(dim in transformed for dim in dropped):
            return None
        moved = editor.call(aten.squeeze_copy.dims, real, dropped)
        dims = [dim - sum(before < dim for before in dropped) for dim in transformed]
    else:
        order = list(range(rank))
        if node.target is aten.transpose.int:
            dim0, dim1 = (argument(node, name) % rank for name in ("dim0", "dim1"))
            order[dim0], order[dim1] = dim1, dim0
        else:
            order = from_front(argument(node, "dims"), rank)
        moved = editor.call(aten.permute_copy.default, real, order)
        dims = [order.index(dim) for dim in transformed]
    with editor.mode:
        val = node.meta["val"].contiguous()
    options = [argument(transform, name) for name in ("normalization", "onesided")]
    return editor.call(aten._fft_r2c.default, moved, dims, *options, val=val)


def _has_size_one(node: Node, dim: int) -> bool:
    size = node.meta["val"].shape[dim]
    return isinstance(size, int) and size == 1
