"""Computation of complex tensors as real tensors [..., 2], whose last dim has the real and the imaginary part.

The rewrite of an operator that turns complex into real numbers, such as `abs`, calls `parts` with the operand. `parts`
computes the real and imaginary parts recursively, from the parts of the operand's own operands. The complex operators
then have no users, and are removed as dead code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from edgecore.ir.graph import Editor
from edgecore.ir.op_args import argument
from edgecore.ir.torch_compat import schema_of

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
        (aten.index_select.default, ("dim",), aten.index_select.default),
        (aten.flip.default, ("dims",), aten.flip.default),
    )
    for target in targets
}
"""Operator that moves data -> its copy variant, and the names of its arguments that are dims."""

# fmt: off
_RESHAPES = (
    aten.view.default, aten.view_copy.default, aten.reshape.default, aten.unsqueeze.default,
    aten.unsqueeze_copy.default, aten.expand.default, aten.expand_copy.default, aten._unsafe_view.default,
    aten.flatten.using_ints,
)
# fmt: on
_EXPANDS = (aten.expand.default, aten.expand_copy.default)


def parts(editor: Editor, value: Node) -> Node:
    """Return the real and imaginary parts of `value` in a new last dim of size 2; `value` may be real."""
    value = skip_copies(value)
    if not value.meta["val"].is_complex():
        return join(editor, value, editor.call(aten.zeros_like.default, value))
    if value.target in _MOVES:
        return _moved(editor, value)
    if value.target in _RESHAPES:
        return _reshaped(editor, value)
    if value.target in _PARTS:
        result = _PARTS[value.target](editor, value)
        if result is not None:
            return result
    return editor.call(aten.view_as_real_copy.default, value)


def has_kernels(value: Node) -> bool:
    """Return True for a complex value that the runtime can hold or compute as a complex tensor.

    Such values are inputs, constants, Fourier transforms of real tensors, and the conjugates of these values.
    """
    value = skip_copies(value)
    if value.target is aten._conj_physical.default:
        return has_kernels(value.args[0])  # type: ignore[arg-type]
    return value.op == "placeholder" or value.target is aten._fft_r2c.default


def skip_copies(value: Node) -> Node:
    """Return the value that `value` copies, or `value` itself."""
    while value.target is aten.clone.default:
        value = value.args[0]  # type: ignore[assignment]
    return value


def split(editor: Editor, both: Node) -> tuple[Node, Node]:
    """Split a tensor of parts [..., 2] into the real and the imaginary part."""
    real, imaginary = (editor.call(aten.select_copy.int, both, -1, index) for index in (0, 1))
    return real, imaginary


def join(editor: Editor, real: Node, imaginary: Node) -> Node:
    """Stack the real and the imaginary part along a new last dim."""
    return editor.call(aten.stack.default, [real, imaginary], -1)


def from_front(dims: Any, rank: int) -> Any:
    """Make negative dims nonnegative: a negative dim would also count the added last dim of size 2."""
    return [dim % rank for dim in dims] if isinstance(dims, (list, tuple)) else dims % rank


def _moved(editor: Editor, value: Node) -> Node:
    """Apply an operator that only moves data, such as `permute`, to the real and imaginary parts of its operand."""
    copy, names = _MOVES[value.target]
    source = value.args[0]
    assert isinstance(source, Node)
    rank = source.meta["val"].dim()
    arguments = [spec.name for spec in schema_of(copy).arguments[1:]]
    values = [from_front(argument(value, name), rank) if name in names else argument(value, name) for name in arguments]
    if copy is aten.permute_copy.default:
        values[0].append(rank)  # keep the last dim, which has the real and imaginary parts
    return editor.call(copy, parts(editor, source), *values)


def _reshaped(editor: Editor, value: Node) -> Node:
    shape = value.meta["val"].shape
    target = aten.expand_copy.default if value.target in _EXPANDS else aten.view_copy.default
    return editor.call(target, parts(editor, value.args[0]), [*shape, 2])  # type: ignore[arg-type]


def _operands(editor: Editor, node: Node) -> tuple[Node, Node] | None:
    """Return the real and imaginary parts of both operands; None if an operand is a number."""
    a, b = node.args[:2]
    return (parts(editor, a), parts(editor, b)) if isinstance(a, Node) and isinstance(b, Node) else None


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, Node) and not value.meta["val"].is_complex())


def _scaled(editor: Editor, target: Any, both: Node, factor: Any) -> Node:
    """Multiply or divide the real and imaginary parts by a real tensor or number."""
    return (
        editor.call(target, both, editor.call(aten.unsqueeze_copy.default, factor, -1))
        if isinstance(factor, Node)
        else editor.call(target, both, factor)
    )


def _product(editor: Editor, node: Node) -> Node | None:
    a, b = node.args[:2]
    if _is_real(a) and isinstance(b, Node):
        return _scaled(editor, aten.mul.Tensor, parts(editor, b), a)
    if _is_real(b) and isinstance(a, Node):
        return _scaled(editor, aten.mul.Tensor, parts(editor, a), b)
    if isinstance(b, complex) and isinstance(a, Node):
        return _times(editor, parts(editor, a), b)
    both = _operands(editor, node)
    return None if both is None else _multiplied(editor, *both)


def _times(editor: Editor, both: Node, factor: complex) -> Node:
    a, b = split(editor, both)
    mul = aten.mul.Scalar
    real = editor.call(aten.sub.Tensor, editor.call(mul, a, factor.real), editor.call(mul, b, factor.imag))
    imaginary = editor.call(aten.add.Tensor, editor.call(mul, a, factor.imag), editor.call(mul, b, factor.real))
    return join(editor, real, imaginary)


def _multiplied(editor: Editor, x: Node, y: Node, mul: Any = aten.mul.Tensor) -> Node:
    (a, b), (c, d) = split(editor, x), split(editor, y)
    real = editor.call(aten.sub.Tensor, editor.call(mul, a, c), editor.call(mul, b, d))
    imaginary = editor.call(aten.add.Tensor, editor.call(mul, a, d), editor.call(mul, b, c))
    return join(editor, real, imaginary)


def _matrix_product(editor: Editor, node: Node) -> Node | None:
    both = _operands(editor, node)
    return None if both is None else _multiplied(editor, *both, node.target)


def _quotient(editor: Editor, node: Node) -> Node | None:
    a, b = node.args[:2]
    if _is_real(b) and isinstance(a, Node):
        return _scaled(editor, aten.div.Tensor, parts(editor, a), b)
    both = _operands(editor, node)
    if both is None:
        return None
    square = editor.call(aten.sum.dim_IntList, editor.call(aten.mul.Tensor, both[1], both[1]), [-1], True)
    return editor.call(aten.div.Tensor, _multiplied(editor, both[0], _conjugate_of(editor, both[1])), square)


def _sum(editor: Editor, node: Node) -> Node | None:
    both = _operands(editor, node)
    return None if both is None else editor.call(node.target, *both, **node.kwargs)  # type: ignore[arg-type]


def _negative(editor: Editor, node: Node) -> Node:
    return editor.call(aten.neg.default, parts(editor, node.args[0]))  # type: ignore[arg-type]


def _converted(editor: Editor, node: Node) -> Node:
    both, dtype = parts(editor, node.args[0]), node.meta["val"].dtype.to_real()  # type: ignore[arg-type]
    return both if both.meta["val"].dtype is dtype else editor.call(aten._to_copy.default, both, dtype=dtype)


def _exponential(editor: Editor, node: Node) -> Node:
    a, b = split(editor, parts(editor, node.args[0]))  # type: ignore[arg-type]
    waves = join(editor, editor.call(aten.cos.default, b), editor.call(aten.sin.default, b))
    return _scaled(editor, aten.mul.Tensor, waves, editor.call(aten.exp.default, a))


def _conjugate_of(editor: Editor, both: Node) -> Node:
    real, imaginary = split(editor, both)
    return join(editor, real, editor.call(aten.neg.default, imaginary))


def _conjugate(editor: Editor, node: Node) -> Node | None:
    source = node.args[0]
    assert isinstance(source, Node)
    return None if has_kernels(source) else _conjugate_of(editor, parts(editor, source))


def _of_view(editor: Editor, node: Node) -> Node:
    return node.args[0]  # type: ignore[return-value]


def _of_complex(editor: Editor, node: Node) -> Node:
    return join(editor, *node.args)  # type: ignore[arg-type]


def _of_cat(editor: Editor, node: Node) -> Node:
    values, rank = node.args[0], node.meta["val"].dim()
    return editor.call(aten.cat.default, [parts(editor, value) for value in values], argument(node, "dim") % rank)  # type: ignore


def _padded(editor: Editor, node: Node) -> Node | None:
    if argument(node, "value") != 0:
        return None
    return editor.call(aten.constant_pad_nd.default, parts(editor, node.args[0]), [0, 0, *argument(node, "pad")])  # type: ignore


def _reduced(editor: Editor, node: Node) -> Node:
    source = node.args[0]
    assert isinstance(source, Node) and callable(node.target)
    rank = source.meta["val"].dim()
    dims = from_front(argument(node, "dim") or list(range(rank)), rank)
    return editor.call(node.target, parts(editor, source), dims, argument(node, "keepdim"))


def _transform(editor: Editor, node: Node) -> Node | None:
    """Compute a complex Fourier transform from the real and imaginary parts of its input.

    The inverse transform is the conjugate of the forward transform of the conjugated input.
    """
    source = node.args[0]
    assert isinstance(source, Node)
    both = parts(editor, source)
    if argument(node, "forward"):
        return _transformed(editor, both, argument(node, "dim"), argument(node, "normalization"))
    inverse = _transformed(editor, _conjugate_of(editor, both), argument(node, "dim"), argument(node, "normalization"))
    return _conjugate_of(editor, inverse)


def _transformed(editor: Editor, both: Node, dims: Sequence[int], normalization: int) -> Node:
    rank = both.meta["val"].dim() - 1
    a, b = (_spectrum(editor, part, from_front(dims, rank), normalization) for part in split(editor, both))
    (real, imaginary), (other_real, other_imaginary) = split(editor, a), split(editor, b)
    return join(
        editor,
        editor.call(aten.sub.Tensor, real, other_imaginary),
        editor.call(aten.add.Tensor, imaginary, other_real),
    )


def _spectrum(editor: Editor, real: Node, dims: Any, normalization: int) -> Node:
    transform = editor.call(aten._fft_r2c.default, real, list(dims), normalization, False)
    return editor.call(aten.view_as_real_copy.default, transform)


def real_inverse(editor: Editor, node: Node) -> Node | None:
    """Compute `_fft_c2r` (complex spectrum to real tensor) from parts, with transforms of real numbers.

    The spectrum of a real tensor is symmetric in the last dim: its real part A is even, its imaginary part B is odd. So
    the forward transform of the real tensor A + B has the real part sum(A cos) and the imaginary part -sum(B sin), and
    the inverse transform of A + iB is the sum of these two parts. Imaginary parts at frequencies that are their own
    mirror image (frequency 0, and `last / 2` if `last` is even) are ignored.
    """
    source, last = node.args[0], argument(node, "last_dim_size")
    assert isinstance(source, Node)
    shape = node.meta["val"].shape
    dims = from_front(argument(node, "dim"), source.meta["val"].dim())
    if not isinstance(last, int) or any(not isinstance(shape[dim], int) for dim in dims):
        return None
    both = parts(editor, source)
    if dims[:-1]:
        both = _conjugate_of(editor, _transformed(editor, _conjugate_of(editor, both), dims[:-1], 0))
    dim, half, mirrored = dims[-1], last // 2 + 1, last - last // 2 - 1

    def part(value: Node, start: int, end: int) -> Node:
        return editor.call(aten.slice_copy.Tensor, value, dim, start, end)

    real, imaginary = split(editor, both)
    pieces = [part(real, 0, 1)]
    if mirrored:
        even, odd = part(real, 1, 1 + mirrored), part(imaginary, 1, 1 + mirrored)
        pieces.append(editor.call(aten.add.Tensor, even, odd))
    if half > 1 + mirrored:
        pieces.append(part(real, half - 1, half))
    if mirrored:
        pieces.append(editor.call(aten.flip.default, editor.call(aten.sub.Tensor, even, odd), [dim]))
    whole = editor.call(aten.cat.default, pieces, dim)
    spectrum = _spectrum(editor, whole, [dim], 0)
    result = editor.call(aten.sum.dim_IntList, spectrum, [-1])
    count = math.prod(shape[dim] for dim in dims)
    factor = {0: 1.0, 1: count**-0.5, 2: 1 / count}[argument(node, "normalization")]
    return editor.call(aten.mul.Tensor, result, factor)


# fmt: off
_PARTS: dict[Any, Callable[[Editor, Node], Node | None]] = {
    aten.view_as_complex.default: _of_view, aten.view_as_complex_copy.default: _of_view,
    aten.complex.default: _of_complex, aten.cat.default: _of_cat,
    aten.mul.Tensor: _product, aten.mul.Scalar: _product, aten.div.Tensor: _quotient, aten.div.Scalar: _quotient,
    aten.add.Tensor: _sum, aten.sub.Tensor: _sum, aten.neg.default: _negative,
    aten._conj.default: _conjugate, aten._conj_physical.default: _conjugate, aten._fft_c2c.default: _transform,
    aten.exp.default: _exponential, aten._to_copy.default: _converted, aten.to.dtype: _converted,
    aten.constant_pad_nd.default: _padded,
    aten.bmm.default: _matrix_product, aten.mm.default: _matrix_product,
    aten.sum.dim_IntList: _reduced, aten.mean.dim: _reduced,
}
# fmt: on
"""Complex operator -> a function that returns the parts of the operator's result, or None for unsupported arguments."""
