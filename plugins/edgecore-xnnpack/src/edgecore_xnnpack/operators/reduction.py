"""Softmax, means and sums."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.net import FIRST, LAST, Value
from edgecore_xnnpack.operators.elementwise import binary
from edgecore_xnnpack.operators.matmul import fully_connected
from edgecore_xnnpack.operators.table import Query, lowers
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten


@lowers(aten._softmax.default, aten.softmax.int, whole=True,
        check=lambda query: "dtype" if query.argument("dtype" if query.node.target is aten.softmax.int else
                                                       "half_to_float") else None)  # fmt: skip
def _softmax(low: Lowering, node: Node) -> Value:
    value = low.input()
    rank = len(value.shape)
    dim = int(low.argument("dim")) % rank
    if dim == rank - 1:
        return low.emit(g.Softmax, [value], value.shape, FIRST)
    if rank == 4 and dim == 1:  # the last dimension in memory
        return low.emit(g.Softmax, [value], value.shape, LAST)
    order = tuple([i for i in range(rank) if i != dim] + [dim])
    last = low.permute(value, order)
    result = low.emit(g.Softmax, [last], last.shape, FIRST)
    return low.permute(result, tuple(order.index(i) for i in range(rank)))


def _dims(source: Any, rank: int) -> list[int]:
    dims = source.argument("dim")
    given = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    return sorted(dim % rank for dim in given)


def _check_reduction(query: Query) -> str | None:
    if query.argument("dtype") not in (None, torch.float32):
        return "dtype"
    dims = _dims(query, len(query.shape))
    return None if dims == list(range(dims[0], dims[-1] + 1)) else f"dims {dims} are not adjacent"


def mean(low: Lowering, value: Value, dims: list[int], shape: tuple[int, ...]) -> Value:
    """The mean over adjacent `dims`, reshaped to `shape`: a pooling of a whole image, or a product with 1/n."""
    if len(value.shape) == 4 and dims == [2, 3]:
        pooled = low.emit(g.GlobalAvgPooling2d, [value], (*value.shape[:2], 1, 1), LAST, flags=g.KEEP_DIMS)
        return low.reshape(pooled, shape)
    # [before, channels = after, 1, count] in ATen's order is [before, 1, count, after] in memory.
    before, after = prod(value.shape[: dims[0]]), prod(value.shape[dims[-1] + 1 :])
    count = value.size // (before * after)
    if after == 1:
        average = np.full((1, count), 1 / count, np.float32)
        return low.reshape(fully_connected(low, low.reshape(value, (before, count)), average, None), shape)
    image = low.reshape(value, (before, 1, count, after))
    image = low.permute(image, (0, 3, 1, 2))
    pooled = low.emit(g.GlobalAvgPooling2d, [image], (before, after, 1, 1), LAST, flags=g.KEEP_DIMS)
    return low.reshape(pooled, shape)


@lowers(aten.mean.dim, check=_check_reduction, constraints="adjacent dims")
def _mean(low: Lowering, node: Node) -> Value:
    value = low.input()
    return mean(low, value, _dims(low, len(value.shape)), low.shape)


@lowers(aten.sum.dim_IntList, check=_check_reduction, constraints="adjacent dims")
def _sum(low: Lowering, node: Node) -> Value:
    value = low.input()
    dims = _dims(low, len(value.shape))
    count = prod(value.shape[dim] for dim in dims)
    return binary(low, g.Multiply, mean(low, value, dims, low.shape), low.scalar(float(count)))
