"""Decompositions of operators that torch does not decompose, or decomposes into operators without kernels.

`decompose` traces these functions. Direct rewrites, which need no tracing, are in `decompose/rewrites`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.fx import Node

from edgecore.ir.op_args import argument
from edgecore.ir.torch_compat import OpOverload, get_decompositions

aten = torch.ops.aten

Decomposition = Callable[..., Any]
"""A function of tensors with the arguments and results of the operator that it decomposes."""

Applies = Callable[[Node], bool]
"""A function that returns True for a call that a decomposition supports."""

_Function = TypeVar("_Function", bound=Decomposition)

_TABLE: dict[OpOverload, tuple[Decomposition, Applies]] = {}


def decomposition_of(node: Node) -> Decomposition | None:
    """Return the decomposition registered for the call `node`, or None."""
    function, applies = _TABLE.get(node.target, (None, None)) if isinstance(node.target, OpOverload) else (None, None)
    return function if applies is not None and applies(node) else None


def decomposes(*targets: OpOverload, applies: Applies = lambda node: True) -> Callable[[_Function], _Function]:
    """Register the decorated function for the calls of `targets` for which `applies` returns True."""

    def register(function: _Function) -> _Function:
        for target in targets:
            assert target not in _TABLE, f"{target} has two decompositions"
            _TABLE[target] = function, applies
        return function

    return register


def has_static_sizes(node: Node) -> bool:
    """Return True if all sizes of the argument `self` are static."""
    return all(isinstance(size, int) for size in argument(node, "self").meta["val"].shape)


def is_empty(*sizes: int) -> bool:
    """Return True if one of the sizes is static and 0."""
    return any(isinstance(size, int) and size == 0 for size in sizes)


def _is_wrapping_pad(node: Node) -> bool:
    widths = argument(node, "pad")
    return argument(node, "mode") == "circular" and all(isinstance(width, int) and width >= 0 for width in widths)


@decomposes(aten.pad.default, applies=_is_wrapping_pad)
def _circular_pad(value: Tensor, pad: Sequence[int], mode: str, unused: float | None = None) -> Tensor:
    """Pad in mode "circular": along each dim, put the end of the tensor before it, and its beginning after it.

    torch's own decomposition is not functional: it writes into slices of the result.
    """
    for index in range(len(pad) // 2):
        dim, before, after = value.dim() - 1 - index, pad[2 * index], pad[2 * index + 1]
        size = value.shape[dim]
        parts = [value.narrow(dim, size - before, before)] if before else []
        parts += [value] + ([value.narrow(dim, 0, after)] if after else [])
        value = torch.cat(parts, dim) if len(parts) > 1 else value
    return value


@decomposes(aten.col2im.default)
def _col2im(
    value: Tensor,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    """Decompose `torch.nn.Fold`. Blocks that tile the image without overlap need only a permutation.

    Overlapping blocks are added up in a padded image by `scatter_add`; the image is then cropped.
    """
    sizes = [size // kernel for size, kernel in zip(output_size, kernel_size, strict=True)]
    side_by_side = list(stride) == list(kernel_size) and list(dilation) == [1, 1] and list(padding) == [0, 0]
    covered = [count * kernel for count, kernel in zip(sizes, kernel_size, strict=True)] == list(output_size)
    if not side_by_side or not covered:
        padded = [size + 2 * pad for size, pad in zip(output_size, padding, strict=True)]
        places = []  # index in the padded image: [kernel, blocks] along each of the two spatial dims
        for size, kernel, gap, step in zip(padded, kernel_size, dilation, stride, strict=True):
            count = (size - gap * (kernel - 1) - 1) // step + 1
            places.append((torch.arange(kernel) * gap).unsqueeze(1) + torch.arange(count) * step)
        rows, columns = places
        index = (rows.unsqueeze(1).unsqueeze(3) * padded[1] + columns.unsqueeze(1).unsqueeze(0)).reshape(-1)
        flat = value.reshape(*value.shape[:-2], -1, index.numel())
        image = value.new_zeros((*flat.shape[:-1], padded[0] * padded[1])).scatter_add(
            -1, index.expand(flat.shape), flat
        )
        image = image.reshape(*flat.shape[:-1], *padded)
        return image[..., padding[0] : padded[0] - padding[0], padding[1] : padded[1] - padding[1]]
    batch, channels = value.shape[:-2], value.shape[-2] // (kernel_size[0] * kernel_size[1])
    blocks = value.reshape(*(batch or (1,)), channels, *kernel_size, *sizes)
    return blocks.permute(0, 1, 4, 2, 5, 3).reshape(*batch, channels, *output_size)


@decomposes(aten.addbmm.default)
def _addbmm(added: Tensor, left: Tensor, right: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """Add the sum of the batch's matrix products to `added`. A `beta` of 0 ignores `added`, even if not finite."""
    product = torch.bmm(left, right).sum(0, dtype=left.dtype)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return (added if beta == 1 else added * beta) + product


@decomposes(aten.exp2.default)
def _exp2(value: Tensor) -> Tensor:
    return torch.pow(2.0, value)


@decomposes(aten.cumprod.default)
def _cumprod(value: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """Compute a cumulative product as `prod` of rows of an n x n matrix: row i has i + 1 elements, then ones.

    `prod` of a row multiplies in the same order as torch's `cumprod`, so that the results are equal, including overflow
    and underflow. Sums of logarithms would need fewer operations, n instead of n^2, but are inexact and fail for
    negative elements.
    """
    if dtype is None:
        dtype = value.dtype if value.is_floating_point() else torch.int64
    value = value.to(dtype)
    if value.dim() == 0:
        return value.clone()
    last = value.transpose(dim, -1).unsqueeze(-2)
    index = torch.arange(last.shape[-1], device=value.device)
    prefix = index.unsqueeze(0) <= index.unsqueeze(1)
    return torch.where(prefix, last, torch.ones((), dtype=dtype)).prod(-1).transpose(dim, -1)


def _count_below(value: Tensor, boundaries: Tensor, right: bool) -> Tensor:
    """For each element of `value`, count the `boundaries` that are smaller or, with `right`, equal.

    `boundaries` is sorted along its last dim. A NaN in `value` counts as greater than all boundaries, because every
    comparison with NaN is False.
    """
    is_above = boundaries > value.unsqueeze(-1) if right else boundaries >= value.unsqueeze(-1)
    return torch.logical_not(is_above).to(torch.int64).sum(-1)


@decomposes(aten.bucketize.Tensor)
def _bucketize(value: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    count = _count_below(value, boundaries, right)
    return count.to(torch.int32) if out_int32 else count


@decomposes(aten.searchsorted.Tensor)
def _searchsorted(
    boundaries: Tensor,
    value: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    boundaries = boundaries if sorter is None else boundaries.gather(-1, sorter)
    rows = boundaries if boundaries.dim() == 1 else boundaries.unsqueeze(-2)
    count = _count_below(value, rows, right or side == "right")
    return count.to(torch.int32) if out_int32 else count


@decomposes(aten.bilinear.default)
def _bilinear(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute out_o = x^T W_o y + b_o: a linear layer gives x^T W_o for all o, then products with y are summed."""
    outputs, left, right = weight.shape
    rows = torch.nn.functional.linear(first, weight.permute(0, 2, 1).reshape(outputs * right, left))
    products = rows.reshape(*first.shape[:-1], outputs, right) * second.unsqueeze(-2)
    return products.sum(-1) if bias is None else products.sum(-1) + bias


@decomposes(aten.take.default, applies=lambda node: argument(node, "index").meta["val"].dim() == 0)
def _take_one(value: Tensor, index: Tensor) -> Tensor:
    """Read one element. torch's own decomposition needs the index as a number, which is unknown at compile time."""
    element: Tensor = aten.index.Tensor(value.reshape(-1), [index])
    return element


@decomposes(aten.round.decimals)
def _round_to_decimals(value: Tensor, *, decimals: int) -> Tensor:
    """Round to multiples of a power of ten, in float32 for 16-bit dtypes, as torch does."""
    if decimals == 0 or not value.is_floating_point():
        return torch.round(value)
    exact = value.to(torch.float32) if value.dtype in (torch.float16, torch.bfloat16) else value
    power = 10.0 ** abs(decimals)
    rounded = torch.round(exact * power) / power if decimals > 0 else torch.round(exact / power) * power
    return rounded.to(value.dtype)


@decomposes(aten.copysign.Tensor)
def _copysign(value: Tensor, sign: Tensor) -> Tensor:
    """Give a tensor's elements the signs of another tensor; the reciprocal's sign distinguishes 0 and -0."""
    dtype = torch.result_type(value, sign)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    magnitude = value.to(dtype).abs()
    return torch.where(_has_sign(sign), -magnitude, magnitude)


@decomposes(aten.copysign.Scalar)
def _copysign_of_number(value: Tensor, sign: Any) -> Tensor:
    dtype = value.dtype if value.is_floating_point() else torch.get_default_dtype()
    magnitude = value.to(dtype).abs()
    return -magnitude if math.copysign(1, sign) < 0 else magnitude


@decomposes(aten.signbit.default)
def _has_sign(value: Tensor) -> Tensor:
    """Return True for negative numbers and for minus zero."""
    if not value.is_floating_point():
        return value < 0 if value.dtype != torch.bool else torch.zeros_like(value)
    return torch.logical_or(value < 0, torch.logical_and(value == 0, value.reciprocal() < 0))


@decomposes(aten.angle.default, applies=lambda node: not argument(node, "self").meta["val"].is_complex())
def _angle(value: Tensor) -> Tensor:
    """Return pi for negative numbers and 0 for others; NaN stays."""
    number = value if value.is_floating_point() else value.to(torch.get_default_dtype())
    return torch.where(number < 0, math.pi, torch.where(number.isnan(), number, 0.0)).to(number.dtype)


@decomposes(aten.fmax.default)
def _fmax(left: Tensor, right: Tensor) -> Tensor:
    return _without_nan(left, right, torch.maximum)


@decomposes(aten.fmin.default)
def _fmin(left: Tensor, right: Tensor) -> Tensor:
    return _without_nan(left, right, torch.minimum)


def _without_nan(left: Tensor, right: Tensor, choose: Decomposition) -> Tensor:
    """Choose between two elements; if one of them is NaN, return the other."""
    chosen: Tensor = choose(left, right)
    if not chosen.is_floating_point():
        return chosen
    left, right = (value.to(chosen.dtype).expand(chosen.shape) for value in (left, right))
    return torch.where(left.isnan(), right, torch.where(right.isnan(), left, chosen))


@decomposes(aten.hypot.default)
def _hypot(left: Tensor, right: Tensor) -> Tensor:
    """Compute sqrt(x^2 + y^2), scaled by the larger operand so that no square overflows."""
    longer, shorter = torch.maximum(left.abs(), right.abs()), torch.minimum(left.abs(), right.abs())
    ratio = torch.where(longer == 0, 0.0, shorter / longer)
    length = longer * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.logical_or(left.isinf(), right.isinf()), torch.inf, length)


@decomposes(aten.addmv.default)
def _addmv(value: Tensor, matrix: Tensor, vector: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    if not value.is_floating_point():
        beta, alpha = int(beta), int(alpha)  # torch truncates the factors of integer tensors, too
    product: Tensor = (matrix @ vector) * alpha
    return product if beta == 0 else value * beta + product


@decomposes(aten.dist.default)
def _dist(left: Tensor, right: Tensor, p: Any = 2) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(left - right, p)
    return length


@decomposes(aten._native_batch_norm_legit_functional.default)
def _batch_norm_in_training(
    value: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Normalize with the statistics of the batch, or with the running statistics if `training` is False.

    The last two results are the new running mean and variance, which change only if `training` is True.
    """
    if not training:
        results = aten._native_batch_norm_legit_no_training(
            value, weight, bias, running_mean, running_var, momentum, eps
        )
        return (*results, running_mean.clone(), running_var.clone())
    normed, mean, invstd = aten._native_batch_norm_legit.no_stats(value, weight, bias, True, momentum, eps)
    dims = [dim for dim in range(value.dim()) if dim != 1]
    var = value.to(mean.dtype).var(dims, correction=1)
    new_mean = running_mean * (1 - momentum) + mean * momentum
    new_var = running_var * (1 - momentum) + var * momentum
    return normed, mean, invstd, new_mean.to(running_mean.dtype), new_var.to(running_var.dtype)


@decomposes(aten._batch_norm_with_update_functional.default)
def _batch_norm_with_update(
    value: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Normalize as in training; the operator's result `reserve` is empty, as in eager mode on a CPU."""
    options = (running_mean, running_var, True, momentum, eps)
    normed, mean, invstd, new_mean, new_var = _batch_norm_in_training(value, weight, bias, *options)
    return normed, mean, invstd, value.new_empty(0, dtype=torch.uint8), new_mean, new_var


_TORCH_DECOMPOSED = (
    aten.embedding_dense_backward.default,
    aten.native_layer_norm_backward.default,
    aten.native_group_norm_backward.default,
)
for _operator in _TORCH_DECOMPOSED:  # decompose these gradients: no runtime has kernels, though torch tags them `core`
    decomposes(_operator)(get_decompositions([_operator])[_operator])


@decomposes(aten.empty_strided.default)
def _empty_strided(size: Sequence[int], stride: Sequence[int], **options: Any) -> Tensor:
    """Create a tensor in the default dim order; its content is undefined, so the strides do not matter."""
    return torch.empty(size, dtype=options.get("dtype") or torch.get_default_dtype())


@decomposes(aten.empty_permuted.default)
def _empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: Any) -> Tensor:
    return torch.empty(size, dtype=options.get("dtype") or torch.get_default_dtype())


@decomposes(aten.new_empty_strided.default)
def _new_empty_strided(value: Tensor, size: Sequence[int], stride: Sequence[int], **options: Any) -> Tensor:
    return torch.empty(size, dtype=options.get("dtype") or value.dtype)


@decomposes(aten.rand_like.default)
def _rand_like(value: Tensor, **options: Any) -> Tensor:
    return torch.rand(value.shape, dtype=options.get("dtype") or value.dtype)


@decomposes(aten.randn_like.default)
def _randn_like(value: Tensor, **options: Any) -> Tensor:
    return torch.randn(value.shape, dtype=options.get("dtype") or value.dtype)


@decomposes(aten.randperm.default)
def _randperm(count: int, **options: Any) -> Tensor:
    """Sort random numbers; the indices of the sorted numbers are a random permutation."""
    return torch.topk(torch.rand(count), count).indices.to(options.get("dtype") or torch.int64)


@decomposes(aten.randint.low)
def _randint_from(low: int, high: int, size: Sequence[int], **options: Any) -> Tensor:
    """Scale random float64 numbers in [0, 1), whose 53 bits keep the bias negligible."""
    numbers = torch.rand(size, dtype=torch.float64) * (high - low) + low
    return torch.floor(numbers).to(options.get("dtype") or torch.int64)


@decomposes(aten.randint.default)
def _randint(high: int, size: Sequence[int], **options: Any) -> Tensor:
    return _randint_from(0, high, size, **options)


@decomposes(aten.randint_like.low_dtype)
def _randint_like_from(value: Tensor, low: int, high: int, **options: Any) -> Tensor:
    return _randint_from(low, high, value.shape, dtype=options.get("dtype") or value.dtype)


@decomposes(aten.randint_like.default)
def _randint_like(value: Tensor, high: int, **options: Any) -> Tensor:
    return _randint_like_from(value, 0, high, **options)


@decomposes(aten.normal.Tensor_Tensor, aten.normal.Tensor_float, aten.normal.float_Tensor)
def _normal(mean: Any, std: Any = 1.0, **options: Any) -> Tensor:
    """Scale and shift normally distributed numbers."""
    like: Tensor = mean + std
    numbers: Tensor = torch.randn(like.shape, dtype=like.dtype) * std + mean
    return numbers


@decomposes(aten.normal.float_float)
def _normal_of_size(mean: float, std: float, size: Sequence[int], **options: Any) -> Tensor:
    return torch.randn(size, dtype=options.get("dtype") or torch.get_default_dtype()) * std + mean
