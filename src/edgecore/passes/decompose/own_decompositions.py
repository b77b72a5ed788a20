"""Decompositions of operators for which torch has none, or only one into operators without kernels in the runtimes.

`decompose` traces these functions. Direct rewrites, which need no tracing, are in `rewrites.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._decomp import get_decompositions
from torch._ops import OpOverload
from torch.fx import Node

from edgecore.ir.op_args import argument

aten = torch.ops.aten

Decomposition = Callable[..., Any]
"""A function of tensors with the arguments and results of the operator that it decomposes."""

Applies = Callable[[Node], bool]
"""A function (call node) -> True if a decomposition supports the call."""

_Function = TypeVar("_Function", bound=Decomposition)

_TABLE: dict[OpOverload, tuple[Decomposition, Applies]] = {}


def decomposition_of(node: Node) -> Decomposition | None:
    """Return the registered function that computes the same as the call `node`, or None."""
    function, applies = _TABLE.get(node.target, (None, None)) if isinstance(node.target, OpOverload) else (None, None)
    return function if applies is not None and applies(node) else None


def decomposes(*targets: OpOverload, applies: Applies = lambda node: True) -> Callable[[_Function], _Function]:
    """Register the decorated function for the calls of `targets` for which `applies` returns True."""

    def register(function: _Function) -> _Function:
        _TABLE.update(dict.fromkeys(targets, (function, applies)))
        return function

    return register


def _is_wrapping_pad(node: Node) -> bool:
    widths = argument(node, "pad")
    return argument(node, "mode") == "circular" and all(isinstance(width, int) and width >= 0 for width in widths)


@decomposes(aten.pad.default, applies=_is_wrapping_pad)
def _circular_pad(value: Tensor, pad: Sequence[int], mode: str, unused: float | None = None) -> Tensor:
    """Pad in mode "circular": along each dim, put the end of the tensor before it and its start after it.

    torch's own decomposition writes into slices of the result, which is not functional.
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
    """Decompose `torch.nn.Fold`. Blocks that lie side by side and fill the image only need a permutation.

    Overlapping blocks go through torch's decomposition, which adds them up by index.
    """
    sizes = [size // kernel for size, kernel in zip(output_size, kernel_size, strict=True)]
    side_by_side = list(stride) == list(kernel_size) and list(dilation) == [1, 1] and list(padding) == [0, 0]
    covered = [count * kernel for count, kernel in zip(sizes, kernel_size, strict=True)] == list(output_size)
    if not side_by_side or not covered:
        general: Decomposition = get_decompositions([aten.col2im.default])[aten.col2im.default]
        added: Tensor = general(value, output_size, kernel_size, dilation, padding, stride)
        return added
    batch, channels = value.shape[:-2], value.shape[-2] // (kernel_size[0] * kernel_size[1])
    blocks = value.reshape(*(batch or (1,)), channels, *kernel_size, *sizes)
    return blocks.permute(0, 1, 4, 2, 5, 3).reshape(*batch, channels, *output_size)


@decomposes(aten.sort.default, applies=lambda node: not isinstance(_sorted_size(node), torch.SymInt))
def _sort(value: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Sort with `topk`, for k = size. The order of equal elements is unspecified, as in torch.

    Booleans become uint8 for it: PyTorch, which computes the constants of a program, has no `topk` of booleans.
    """
    size = value.shape[dim] if value.dim() else 1
    ordered = value.to(torch.uint8) if value.dtype == torch.bool else value
    values, indices = torch.topk(ordered, size, dim, largest=descending, sorted=True)
    return values.to(value.dtype), indices


def _sorted_size(node: Node) -> Any:
    shape = argument(node, "self").meta["val"].shape
    return shape[argument(node, "dim")] if shape else 1


@decomposes(aten.exp2.default)
def _exp2(value: Tensor) -> Tensor:
    return torch.pow(2.0, value)


@decomposes(aten.cumprod.default)
def _cumprod(value: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """Compute the cumulative product as `prod` of each row of an n x n matrix: row i has the first i + 1 elements, then ones.

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
    """Count, for each element of `value`, the `boundaries` that are less than it, or with `right` not greater.

    `boundaries` is sorted in its last dim. A NaN in `value` counts as greater than all boundaries, because every
    comparison with NaN is False.
    """
    is_above = boundaries > value.unsqueeze(-1) if right else boundaries >= value.unsqueeze(-1)
    return torch.logical_not(is_above).to(torch.int64).sum(-1)


@decomposes(aten.bucketize.Tensor)
def _bucketize(value: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    count = _count_below(value, boundaries, right)
    return count.to(torch.int32) if out_int32 else count


@decomposes(aten.searchsorted.Tensor, applies=lambda node: argument(node, "sorter") is None)
def _searchsorted(
    boundaries: Tensor,
    value: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: None = None,
) -> Tensor:
    rows = boundaries if boundaries.dim() == 1 else boundaries.unsqueeze(-2)
    count = _count_below(value, rows, right or side == "right")
    return count.to(torch.int32) if out_int32 else count


@decomposes(aten.bilinear.default)
def _bilinear(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute out_o = x^T W_o y + b_o: one linear layer gives x^T W_o for all o, then a product with y is summed."""
    outputs, left, right = weight.shape
    rows = torch.nn.functional.linear(first, weight.permute(0, 2, 1).reshape(outputs * right, left))
    products = rows.reshape(*first.shape[:-1], outputs, right) * second.unsqueeze(-2)
    return products.sum(-1) if bias is None else products.sum(-1) + bias


@decomposes(aten.rand_like.default)
def _rand_like(value: Tensor, **options: Any) -> Tensor:
    return torch.rand(value.shape, dtype=options.get("dtype") or value.dtype)


@decomposes(aten.randn_like.default)
def _randn_like(value: Tensor, **options: Any) -> Tensor:
    return torch.randn(value.shape, dtype=options.get("dtype") or value.dtype)
