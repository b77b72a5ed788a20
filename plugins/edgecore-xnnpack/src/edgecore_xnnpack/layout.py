"""Chooses channels first or last for every value of rank 4 or 5, with the fewest bytes transposed.

A minimum cut: each value that an operation computes is on one side or the other, operations that demand a layout hold
their values there, and an edge costs the bytes of the value that it would have to transpose. A value is transposed once
for all its readers on the other side.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from edgecore_xnnpack.net import (
    FIRST,
    TIED,
    TO_FIRST,
    TO_LAST,
    Array,
    Fixed,
    Layout,
    Net,
    Op,
    Open,
    Value,
)
from edgecore_xnnpack.schema import graph as g

BY_DIMENSION = frozenset({"pre_paddings", "post_paddings", "offsets", "sizes"})
"""Attributes with one number for each dimension."""

FEW_CHANNELS = 4

_SCALE = 64
"""A transposition is this much dearer than a reshape of as many bytes."""


def assign_layouts(net: Net) -> None:
    """Set the layout of every value, insert the transpositions, and bring attributes and constants into memory order."""
    last = _choose(net)
    for op in net.ops:
        if op.output in last:
            op.output.layout = Layout.LAST
    _Rewriter(net).run()


def _choose(net: Net) -> set[Value]:
    """The computed values that are channels last."""
    cut = _Cut()
    free: set[Value] = {op.output for op in net.ops if op.output.has_layouts and _is_free(op)}
    first, last = object(), object()

    def side(value: Value) -> Any:
        return value if value in free else last if value.layout == Layout.LAST else first

    for op in net.ops:
        if isinstance(op.rule, Fixed) and op.rule.output == Layout.LAST:
            op.output.layout = Layout.LAST
            if op.second is not None:
                op.second.layout = Layout.LAST
    readers: dict[Value, set[Any]] = {}
    for op in net.ops:
        for value in op.inputs:
            if not value.has_layouts or value.constant is not None:
                continue
            wanted = op.rule.input if isinstance(op.rule, Fixed) else None
            if wanted is not None:
                readers.setdefault(value, set()).add(last if wanted == Layout.LAST else first)
            elif op.rule is TIED:
                readers.setdefault(value, set()).add(side(op.output))
    for value, layout in net.outputs:
        if value.has_layouts:
            readers.setdefault(value, set()).add(last if layout == Layout.LAST else first)
    for value, sides in readers.items():
        cost = _cost(value)
        at = side(value)
        sides.discard(at)
        if len(sides) == 1:
            (other,) = sides
            cut.add(at, other, cost)
            cut.add(other, at, cost)
        elif sides:
            once_last, once_first = object(), object()
            cut.add(at, once_last, cost)
            cut.add(once_first, at, cost)
            for other in sides:
                cut.add(once_last, other, None)
                cut.add(other, once_first, None)
    return {value for value in cut.source_side(last, first) if value in free}


def _cost(value: Value) -> int:
    """Bytes of few channels take XNNPACK a little longer to turn than as many floats."""
    is_slow = value.quantization is not None and value.shape[1] <= FEW_CHANNELS
    return value.size * (1 if value.has_one_order else _SCALE) + is_slow


def _is_free(op: Op) -> bool:
    return op.rule is TIED or (isinstance(op.rule, Fixed) and op.rule.output is None)


class _Cut:
    """Minimum cut by augmenting along shortest paths."""

    def __init__(self) -> None:
        self.capacity: dict[Any, dict[Any, float]] = {}

    def add(self, a: Any, b: Any, cost: float | None) -> None:
        """An edge that costs `cost` if `a` ends on the source's side and `b` on the sink's; None: forbidden."""
        edges = self.capacity.setdefault(a, {})
        edges[b] = edges.get(b, 0) + (float("inf") if cost is None else cost)
        self.capacity.setdefault(b, {}).setdefault(a, 0)

    def source_side(self, source: Any, sink: Any) -> set[Any]:
        """The nodes on the source's side of the cut nearest to the sink."""
        self.capacity.setdefault(source, {})
        self.capacity.setdefault(sink, {})
        while (came := self._search(source, sink)) and sink in came:
            path = [sink]
            while path[-1] is not source:
                path.append(came[path[-1]])
            path.reverse()
            edges = list(pairwise(path))
            amount = min(self.capacity[a][b] for a, b in edges)
            for a, b in edges:
                self.capacity[a][b] -= amount
                self.capacity[b][a] += amount
        return set(self._search(source, None))

    def _search(self, source: Any, sink: Any) -> dict[Any, Any]:
        came = {source: source}
        queue = deque([source])
        while queue:
            a = queue.popleft()
            for b, room in self.capacity[a].items():
                if room > 0 and b not in came:
                    came[b] = a
                    if b is sink:
                        return came
                    queue.append(b)
        return came


class _Rewriter:
    """Brings a net with chosen layouts into memory order."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.ops: list[Op] = []
        self.converted: dict[Value, Value] = {}

    def run(self) -> None:
        for op in self.net.ops:
            self._rewrite(op)
            self.ops.append(op)
        self.net.outputs = [(self._with_layout(value, layout, ()), layout) for value, layout in self.net.outputs]
        self.net.ops = self.ops

    def _rewrite(self, op: Op) -> None:
        tied = op.rule is TIED and op.output.has_layouts
        wanted = op.output.layout if tied else op.rule.input if isinstance(op.rule, Fixed) else Layout.FIRST
        op.inputs = [self._operand(value, wanted, tied, op.handles) for value in op.inputs]
        if tied and wanted == Layout.LAST:
            order = TO_LAST[len(op.output.shape)]
            for name in BY_DIMENSION & op.attributes.keys():
                op.attributes[name] = tuple(op.attributes[name][i] for i in order)
            if "axis" in op.attributes:
                op.attributes["axis"] = order.index(op.attributes["axis"])
        if op.kind is g.StaticReshape:
            op.attributes["new_shape"] = op.output.dims

    def _operand(self, value: Value, wanted: Layout | None, tied: bool, handles: tuple[int, ...]) -> Value:
        if not value.has_layouts or wanted is None:
            return value
        if value.constant is not None:
            return self._constant(value) if tied and wanted == Layout.LAST else value
        return self._with_layout(value, wanted, handles)

    def _constant(self, value: Value) -> Value:
        if value not in self.converted:
            assert value.constant is not None
            relaid: Array = np.ascontiguousarray(value.constant.transpose(TO_LAST[len(value.shape)]))
            self.converted[value] = Value(value.shape, relaid, Layout.LAST)
        return self.converted[value]

    def _with_layout(self, value: Value, wanted: Layout, handles: tuple[int, ...]) -> Value:
        if not value.has_layouts or value.layout == wanted:
            return value
        if value not in self.converted:
            result = replace(value, layout=wanted)
            order = (TO_LAST if wanted == Layout.LAST else TO_FIRST)[len(value.shape)]
            if value.has_one_order and sum(isinstance(size, Open) for size in value.shape) < 2:
                self.ops.append(Op(g.StaticReshape, [value], result, FIRST, {"new_shape": result.dims}, None, handles))
            else:
                self.ops.append(Op(g.StaticTranspose, [value], result, FIRST, {"perm": order}, None, handles))
            self.converted[value] = result
        return self.converted[value]
