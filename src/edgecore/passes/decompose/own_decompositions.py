"""Decompositions that torch lacks, or whose result no runtime has kernels for, as plain torch functions.

`decompose` traces them; direct rewrites, which need no tracing, are in `rewrites.py`.
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
"""Takes the operator's arguments and gives its results."""

Applies = Callable[[Node], bool]

_Function = TypeVar("_Function", bound=Decomposition)

_TABLE: dict[OpOverload, tuple[Decomposition, Applies]] = {}


def decomposition_of(node: Node) -> Decomposition | None:
    """The function that computes what the call `node` does, if there is one here."""
    function, applies = _TABLE.get(node.target, (None, None)) if isinstance(node.target, OpOverload) else (None, None)
    return function if applies is not None and applies(node) else None


def decomposes(*targets: OpOverload, applies: Applies = lambda node: True) -> Callable[[_Function], _Function]:
    """Register the decorated function for the calls of `targets` that `applies` accepts."""

    def register(function: _Function) -> _Function:
        _TABLE.update(dict.fromkeys(targets, (function, applies)))
        return function

    return register


def _is_wrapping_pad(node: Node) -> bool:
    widths = argument(node, "pad")
    return argument(node, "mode") == "circular" and all(isinstance(width, int) and width >= 0 for width in widths)


@decomposes(aten.pad.default, applies=_is_wrapping_pad)
def _circular_pad(value: Tensor, pad: Sequence[int], mode: str, unused: float | None = None) -> Tensor:
    """Join the end, the whole and the start along each dim; torch's own decomposition writes into slices."""
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
    """`torch.nn.Fold`. Blocks side by side are only moved; what overlaps is added up by index."""
    sizes = [size // kernel for size, kernel in zip(output_size, kernel_size, strict=True)]
    side_by_side = list(stride) == list(kernel_size) and list(dilation) == [1, 1] and list(padding) == [0, 0]
    covered = [count * kernel for count, kernel in zip(sizes, kernel_size, strict=True)] == list(output_size)
    if not side_by_side or not covered:
        general: Decomposition = get_decompositions([aten.col2im.default])[aten.col2im.default]
        added: Tensor = general(value, output_size, kernel_size, dilation, padding, stride)
        return added
    batch = value.shape[:-2]
    blocks = value.reshape(-1, value.shape[-2] // (kernel_size[0] * kernel_size[1]), *kernel_size, *sizes)
    return blocks.permute(0, 1, 4, 2, 5, 3).reshape(*batch, -1, *output_size)


@decomposes(aten.sort.default, applies=lambda node: not isinstance(_sorted_size(node), torch.SymInt))
def _sort(value: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Take the top k for k = size; as in torch, the order of equal elements is unspecified."""
    size = value.shape[dim] if value.dim() else 1
    values, indices = torch.topk(value, size, dim, largest=descending, sorted=True)
    return values, indices


def _sorted_size(node: Node) -> Any:
    shape = argument(node, "self").meta["val"].shape
    return shape[argument(node, "dim")] if shape else 1


@decomposes(aten.cumprod.default)
def _cumprod(value: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """The product over each prefix, later factors replaced by 1: as exact as one after another, n^2 products for n."""
    if dtype is None:
        dtype = value.dtype if value.is_floating_point() else torch.int64
    value = value.to(dtype)
    if value.dim() == 0:
        return value.clone()
    last = value.transpose(dim, -1).unsqueeze(-2)
    place = torch.arange(last.shape[-1], device=value.device)
    prefix = place.unsqueeze(0) <= place.unsqueeze(1)
    return torch.where(prefix, last, torch.ones((), dtype=dtype)).prod(-1).transpose(dim, -1)


def _count_below(value: Tensor, boundaries: Tensor, right: bool) -> Tensor:
    """How many of the sorted `boundaries`, in the last dim, are below `value`, or with `right` not above; NaN is above all."""
    stop = boundaries > value.unsqueeze(-1) if right else boundaries >= value.unsqueeze(-1)
    return torch.logical_not(stop).to(torch.int64).sum(-1)


@decomposes(aten.bucketize.Tensor)
def _bucketize(value: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    found = _count_below(value, boundaries, right)
    return found.to(torch.int32) if out_int32 else found


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
    found = _count_below(value, rows, right or side == "right")
    return found.to(torch.int32) if out_int32 else found


@decomposes(aten.bilinear.default)
def _bilinear(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear layer of the first input, then a product with the second one for each output: out_o = x^T W_o y + b_o."""
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
