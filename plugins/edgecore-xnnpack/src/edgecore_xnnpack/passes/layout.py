"""Choose channels first or last for every value of rank 4 or 5, with the fewest bytes transposed.

XNNPACK's convolutions and poolings want channels last, other operations run in either order as long as their inputs
and output agree, and the caller's tensors have an order of their own. The choice that transposes the fewest bytes is
a minimum cut. Its source is `last`, its sink `first`; a value with a given layout is one of these two, every other
value is a node of its own, and the side where it ends is its layout. An edge from a to b costs its capacity if a ends
on the side of `last` and b on that of `first`:

- A value with one reader has edges to it and back, at the cost of transposing the value.
- A value with several readers is transposed once for all that want the other layout. Two more nodes count that:
  `all_last` can be on the side of `last` only if all readers are (edges of infinite capacity to them), and the value
  pays if it is there and `all_last` is not; `any_last` must be on that side if one reader is, and pays if it is there
  and the value is not.

The cut is found by augmenting along shortest paths (Edmonds and Karp), which is fast for graphs of some hundred nodes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from edgecore_xnnpack.schema import graph as g
from edgecore_xnnpack.subgraph import (
    FIRST,
    SAME_LAYOUT,
    TO_FIRST,
    TO_LAST,
    Array,
    FixedLayouts,
    Layout,
    Subgraph,
    SubgraphNode,
    SubgraphValue,
    SymbolicSize,
)

BY_DIMENSION = frozenset({"pre_paddings", "post_paddings", "offsets", "sizes"})
"""Attributes with one number for each dimension."""

FEW_CHANNELS = 4

_SCALE = 64
"""Cost of an element to transpose; an element of a tensor whose bytes are the same in both layouts costs 1, for a
reshape."""


def assign_layouts(subgraph: Subgraph) -> None:
    """Set the layout of every value, insert transposes, and bring attributes and constants into memory order."""
    last = _choose(subgraph)
    for op in subgraph.nodes:
        if op.output in last:
            op.output.layout = Layout.LAST
    _Rewriter(subgraph).run()


def _choose(subgraph: Subgraph) -> set[SubgraphValue]:
    """Return the values, of those whose layout is free, that get channels last."""
    cut = _Cut()
    free: set[SubgraphValue] = {op.output for op in subgraph.nodes if op.output.has_layouts and _is_free(op)}
    first, last = object(), object()

    def side(value: SubgraphValue) -> Any:
        return value if value in free else last if value.layout == Layout.LAST else first

    for op in subgraph.nodes:
        if isinstance(op.rule, FixedLayouts) and op.rule.output == Layout.LAST:
            op.output.layout = Layout.LAST
            if op.second is not None:
                op.second.layout = Layout.LAST
    readers: dict[SubgraphValue, set[Any]] = {}
    for op in subgraph.nodes:
        for value in op.inputs:
            if not value.has_layouts or value.constant is not None:
                continue
            required = op.rule.input if isinstance(op.rule, FixedLayouts) else None
            if required is not None:
                readers.setdefault(value, set()).add(last if required == Layout.LAST else first)
            elif op.rule is SAME_LAYOUT:
                readers.setdefault(value, set()).add(side(op.output))
    for value, layout in subgraph.outputs:
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
            all_last, any_last = object(), object()
            cut.add(at, all_last, cost)
            cut.add(any_last, at, cost)
            for other in sides:
                cut.add(all_last, other, None)
                cut.add(other, any_last, None)
    return {value for value in cut.source_side(last, first) if value in free}


def _cost(value: SubgraphValue) -> int:
    """Return the cost of transposing a value; int8 images of few channels are a little slower than as many floats."""
    is_slow = value.quantization is not None and value.shape[1] <= FEW_CHANNELS
    return value.size * (1 if value.has_one_order else _SCALE) + is_slow


def _is_free(op: SubgraphNode) -> bool:
    return op.rule is SAME_LAYOUT or (isinstance(op.rule, FixedLayouts) and op.rule.output is None)


class _Cut:
    """A minimum cut between two nodes, found by augmenting along shortest paths."""

    def __init__(self) -> None:
        self.capacity: dict[Any, dict[Any, float]] = {}

    def add(self, a: Any, b: Any, cost: float | None) -> None:
        """Add an edge that costs `cost` if `a` ends on the source's side and `b` on the sink's.

        None: infinitely much.
        """
        edges = self.capacity.setdefault(a, {})
        edges[b] = edges.get(b, 0) + (float("inf") if cost is None else cost)
        self.capacity.setdefault(b, {}).setdefault(a, 0)

    def source_side(self, source: Any, sink: Any) -> set[Any]:
        """Return the smallest source's side of all minimum cuts, which does not depend on the order of the paths."""
        self.capacity.setdefault(source, {})
        self.capacity.setdefault(sink, {})
        while (previous := self._search(source, sink)) and sink in previous:
            path = [sink]
            while path[-1] is not source:
                path.append(previous[path[-1]])
            path.reverse()
            edges = list(pairwise(path))
            amount = min(self.capacity[a][b] for a, b in edges)
            for a, b in edges:
                self.capacity[a][b] -= amount
                self.capacity[b][a] += amount
        return set(self._search(source, None))

    def _search(self, source: Any, sink: Any) -> dict[Any, Any]:
        previous = {source: source}
        queue = deque([source])
        while queue:
            a = queue.popleft()
            for b, room in self.capacity[a].items():
                if room > 0 and b not in previous:
                    previous[b] = a
                    if b is sink:
                        return previous
                    queue.append(b)
        return previous


class _Rewriter:
    """Brings a subgraph whose layouts are chosen into memory order."""

    def __init__(self, subgraph: Subgraph) -> None:
        self.subgraph = subgraph
        self.nodes: list[SubgraphNode] = []
        self.converted: dict[SubgraphValue, SubgraphValue] = {}

    def run(self) -> None:
        for op in self.subgraph.nodes:
            self._rewrite(op)
            self.nodes.append(op)
        self.subgraph.outputs = [
            (self._with_layout(value, layout, ()), layout) for value, layout in self.subgraph.outputs
        ]
        self.subgraph.nodes = self.nodes

    def _rewrite(self, op: SubgraphNode) -> None:
        tied = op.rule is SAME_LAYOUT and op.output.has_layouts
        wanted = op.output.layout if tied else op.rule.input if isinstance(op.rule, FixedLayouts) else Layout.FIRST
        op.inputs = [self._operand(value, wanted, tied, op.handles) for value in op.inputs]
        if tied and wanted == Layout.LAST:
            order = TO_LAST[len(op.output.shape)]
            for name in BY_DIMENSION & op.attributes.keys():
                op.attributes[name] = tuple(op.attributes[name][i] for i in order)
            if "axis" in op.attributes:
                op.attributes["axis"] = order.index(op.attributes["axis"])
        if op.kind is g.StaticReshape:
            op.attributes["new_shape"] = op.output.dims

    def _operand(
        self, value: SubgraphValue, wanted: Layout | None, tied: bool, handles: tuple[int, ...]
    ) -> SubgraphValue:
        if not value.has_layouts or wanted is None:
            return value
        if value.constant is not None:
            return self._constant(value) if tied and wanted == Layout.LAST else value
        return self._with_layout(value, wanted, handles)

    def _constant(self, value: SubgraphValue) -> SubgraphValue:
        if value not in self.converted:
            assert value.constant is not None
            layout_changed: Array = np.ascontiguousarray(value.constant.transpose(TO_LAST[len(value.shape)]))
            self.converted[value] = SubgraphValue(value.shape, layout_changed, Layout.LAST)
        return self.converted[value]

    def _with_layout(self, value: SubgraphValue, wanted: Layout, handles: tuple[int, ...]) -> SubgraphValue:
        if not value.has_layouts or value.layout == wanted:
            return value
        if value not in self.converted:
            result = replace(value, layout=wanted)
            order = (TO_LAST if wanted == Layout.LAST else TO_FIRST)[len(value.shape)]
            if value.has_one_order and sum(isinstance(size, SymbolicSize) for size in value.shape) < 2:
                self.nodes.append(
                    SubgraphNode(g.StaticReshape, [value], result, FIRST, {"new_shape": result.dims}, None, handles)
                )
            else:
                self.nodes.append(
                    SubgraphNode(g.StaticTranspose, [value], result, FIRST, {"perm": order}, None, handles)
                )
            self.converted[value] = result
        return self.converted[value]
