"""Decompositions of the functional forms of in-place operators such as `put_`, which writes elements, and `uniform_`.

Random numbers come from the runtime's generator, so they have the same distribution as in PyTorch, but other values.
Each function has the arguments of its ATen operator, and `decompose` traces the function.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx import Node

from edgecore.ir.op_args import argument
from edgecore.passes.decompose.decompositions.various import decomposes

aten = torch.ops.aten


def _uses_the_default_generator(node: Node) -> bool:
    return argument(node, "generator") is None


@decomposes(aten.put.default)
def _put(value: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Write `source` to the elements `index` of the flattened tensor; negative indices count from its end."""
    flat, index, source = value.reshape(-1), index.reshape(-1), source.reshape(-1)
    index = torch.where(index < 0, index + value.numel(), index)
    written = flat.scatter_add(0, index, source) if accumulate else flat.scatter(0, index, source)
    return written.reshape(value.shape)


@decomposes(aten.diagonal_scatter.default)
def _diagonal_scatter(value: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Write a diagonal: repeat the new elements along the rows or columns, and select them by a mask.

    Unlike torch's own decomposition, this function supports symbolic sizes.
    """
    dim1, dim2 = dim1 % value.dim(), dim2 % value.dim()
    others = [dim for dim in range(value.dim()) if dim not in (dim1, dim2)]
    order = [*others, dim1, dim2]
    matrix = value.permute(order)
    rows, columns = torch.arange(matrix.shape[-2]).unsqueeze(1), torch.arange(matrix.shape[-1]).unsqueeze(0)
    place = (rows if offset >= 0 else columns).reshape(-1).clamp(max=source.shape[-1] - 1)
    repeated = source.index_select(-1, place).unsqueeze(-1 if offset >= 0 else -2)
    written = torch.where(columns - rows == offset, repeated, matrix)
    return written.permute([order.index(dim) for dim in range(value.dim())])


@decomposes(aten.bernoulli.p, aten.bernoulli.Tensor, aten.bernoulli.default, applies=_uses_the_default_generator)
def _bernoulli(value: Tensor, p: float | Tensor | None = None, *, generator: None = None) -> Tensor:
    """Return random zeros and ones: 1 where a uniform number is below the probability `p` (default: `value`)."""
    return (torch.rand(value.shape) < (value if p is None else p)).to(value.dtype)


@decomposes(aten.uniform.default, applies=_uses_the_default_generator)
def _uniform(value: Tensor, low: float = 0.0, high: float = 1.0, *, generator: None = None) -> Tensor:
    return (torch.rand(value.shape) * (high - low) + low).to(value.dtype)


@decomposes(aten.normal_functional.default, applies=_uses_the_default_generator)
def _normal(value: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: None = None) -> Tensor:
    return (torch.randn(value.shape) * std + mean).to(value.dtype)


def _has_a_row_of_memory(node: Node) -> bool:
    is_repeated = any(isinstance(stride, int) and stride == 0 for stride in argument(node, "stride"))
    return bool(argument(node, "self").meta["val"].is_contiguous()) and not is_repeated


@decomposes(aten.as_strided_scatter.default, applies=_has_a_row_of_memory)
def _as_strided_scatter(
    value: Tensor, source: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Write `source` to the elements that `size`, `stride` and `storage_offset` select in the flattened tensor.

    torch's functionalization of views makes such calls.
    """
    places = torch.full([1] * len(size), 0 if storage_offset is None else storage_offset, dtype=torch.int64)
    for dim, (count, step) in enumerate(zip(size, stride, strict=True)):
        places = places + (torch.arange(count) * step).reshape([-1, *[1] * (len(size) - dim - 1)])
    written = value.reshape(-1).scatter(0, places.reshape(-1), source.reshape(-1))
    return written.reshape(value.shape)
