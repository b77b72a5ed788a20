"""Lower sums, means, maxima and minima over any dims to TOSA."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import torch
from torch.fx import Node

from edgecore.sdk import NodeQuery, argument
from edgecore.sdk.torch_compat import schema_of
from edgecore_tosa.builder.builder import Builder, Value
from edgecore_tosa.builder.operator_table import FLOAT, Lower, Query, Row
from edgecore_tosa.operators.average import averages
from edgecore_tosa.schema import DType, Op

aten = torch.ops.aten

_BITS = {DType.INT8: 8, DType.INT16: 16}
"""Magnitude bits of the summed integers after subtracting zero points."""


def _dims(node: Node, rank: int) -> list[int]:
    """Return the dims that the current reduction node reduces, sorted; all dims if the node names none."""
    dims = argument(node, "dim") if _has(node, "dim") else None
    if isinstance(dims, int):
        return [dims % rank]
    return sorted({dim % rank for dim in dims or range(rank)})


def _has(node: Node, name: str) -> bool:
    return any(declared.name == name for declared in schema_of(node.target).arguments)


def _without(b: Builder, value: Value, dims: list[int]) -> Value:
    """Remove the dims of size 1 that a reduction leaves, unless the current node has keepdim=True."""
    assert b.node is not None
    if _has(b.node, "keepdim") and b.argument("keepdim"):
        return value
    kept = [dim for dim in value.order if dim not in dims]
    tensor = b.reshape(value.tensor, [value.shape[dim] for dim in kept])
    return replace(value, tensor=tensor, order=tuple(sorted(kept).index(dim) for dim in kept))


def _total(is_mean: bool) -> Lower:
    """Return the function that lowers a sum or mean; integers are summed exactly, and only the result is rounded."""

    def lower(b: Builder) -> Value:
        x = b.input()
        assert b.node is not None
        dims = _dims(b.node, len(x.order))
        factor = 1 / math.prod(x.shape[dim] for dim in dims) if is_mean else 1.0
        if is_mean and len(x.order) == 4 and dims == [2, 3]:
            return _without(b, averages(b, x, x.shape[2:], [1, 1], [0] * 4, None), dims)
        q = x.quantization
        whole = b.rescale(x.tensor, 1.0, DType.INT32, q.zero_point) if q else x.tensor
        tensor = b.reduce(Op.REDUCE_SUM, whole, *(x.axis(dim) for dim in dims))
        if not q and is_mean:
            tensor = b.compute(Op.MUL, tensor, factor)
        return _without(b, b.finish(tensor, q.step * factor if q else 1.0, x.order), dims)

    return lower


def _extreme(op: Op) -> Lower:
    """Return the function that lowers a maximum or minimum over dims: it reduces the integers, then rescales."""

    def lower(b: Builder) -> Value:
        x = b.input()
        assert b.node is not None
        dims = _dims(b.node, len(x.order))
        tensor = b.reduce(op, x.tensor, *(x.axis(dim) for dim in dims))
        return _without(b, b.convert(replace(x, tensor=tensor), b.quantization), dims)

    return lower


def _check(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    return None if query.sizes("self") else "an input without dims"


def _check_total(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    if query.argument("dtype") not in (None, query.argument("self").meta["val"].dtype):
        return "a sum of another dtype"
    sizes, q = query.sizes("self"), query.parameters.of(query.argument("self"))
    count = math.prod(sizes[dim] for dim in _dims(query.node, len(sizes))) if sizes else 1
    if q is not None and count > 2 ** (31 - _BITS[q.dtype]):
        return f"a sum of {count} elements, which may overflow 32 bits"
    return _check(query)


def _values(lower: Lower) -> Lower:
    """Return the function that lowers a reduction to (values, indices) if only the values are read."""
    return lambda b: [cast(Value, lower(b))]


ROWS = (
    Row(aten.sum.dim_IntList, FLOAT, "an input with dims", _check_total, False, _total(False)),
    Row(aten.mean.dim, FLOAT, "an input with dims", _check_total, False, _total(True)),
    Row(aten.mean.default, FLOAT, "an input with dims", _check_total, False, _total(True)),
    Row(aten.max.default, FLOAT, "an input with dims", _check, False, _extreme(Op.REDUCE_MAX)),
    Row(aten.min.default, FLOAT, "an input with dims", _check, False, _extreme(Op.REDUCE_MIN)),
    Row(aten.max.dim, FLOAT, "an input with dims; only its values", _check, False, _values(_extreme(Op.REDUCE_MAX))),
    Row(aten.min.dim, FLOAT, "an input with dims; only its values", _check, False, _values(_extreme(Op.REDUCE_MIN))),
    Row(aten.amax.default, FLOAT, "an input with dims", _check, False, _extreme(Op.REDUCE_MAX)),
    Row(aten.amin.default, FLOAT, "an input with dims", _check, False, _extreme(Op.REDUCE_MIN)),
)
