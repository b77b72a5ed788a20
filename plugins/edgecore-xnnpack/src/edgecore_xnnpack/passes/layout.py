"""Choose channels first or last for every value of rank 4 or 5, so that as few elements as possible are transposed.

XNNPACK's convolutions and poolings need channels last. Other operations work in both layouts if inputs and output
agree. The caller's tensors have fixed layouts. The cheapest choice is a minimum cut of a graph with the source `last`
and the sink `first`. A value with a fixed layout is one of these two nodes. Every other value is a separate node, and
the side of the cut on which the node lies is the value's layout. An edge a -> b costs its capacity if the cut puts a
on the side of `last` and b on the side of `first`. For a value v, let c be the cost of transposing v:

- If v has one reader r, the edges v -> r and r -> v have capacity c: the cut pays c if the layouts of v and r differ.
- If v has readers r1, r2, .., v is transposed at most once, for all readers with the other layout. Two auxiliary nodes
  make the cut pay c only once. The edge v -> all_last has capacity c, and each edge all_last -> ri infinite capacity:
  `all_last` can be `last` only if all readers are, so the cut pays c if v is `last` and some reader is `first`. The
  edges ri -> any_last of infinite capacity and any_last -> v of capacity c do the same for the exchanged layouts.

The cut is found by augmenting along shortest paths (Edmonds and Karp), which is fast for graphs of some hundred nodes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from edgecore_xnnpack.graph.subgraph import (
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
from edgecore_xnnpack.schema import graph as g

BY_DIMENSION = frozenset({"pre_paddings", "post_paddings", "offsets", "sizes"})
"""Attributes of operations that have a number for each dimension."""

FEW_CHANNELS = 4
"""An int8 image with at most this number of channels is slow to transpose."""

_SCALE = 64
"""Cost of transposing one element. An element of a tensor that has the same bytes in both layouts costs 1 instead,
because such a tensor only needs a reshape."""


def assign_layouts(subgraph: Subgraph) -> None:
    """Choose the layout of every value, insert transposes, and permute attributes and constants to the memory order."""
    last = _choose(subgraph)
    for op in subgraph.nodes:
        if op.output in last:
            op.output.layout = Layout.LAST
    _Rewriter(subgraph).run()


def _choose(subgraph: Subgraph) -> set[SubgraphValue]:
    """Set the layouts that operations prescribe; return the remaining values to which the cut gives channels last."""
    cut = _Cut()
    free: set[SubgraphValue] = {op.output for op in subgraph.nodes if op.output.has_layouts and _is_free(op)}
    first, last = object(), object()

    def cut_node(value: SubgraphValue) -> Any:
        """Return the node that represents the layout of a value in the graph of the minimum cut."""
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
                readers.setdefault(value, set()).add(cut_node(op.output))
    for value, layout in subgraph.outputs:
        if value.has_layouts:
            readers.setdefault(value, set()).add(last if layout == Layout.LAST else first)
    for value, others in readers.items():
        cost = _cost(value)
        node = cut_node(value)
        others.discard(node)
        if len(others) == 1:
            (other,) = others
            cut.add(node, other, cost)
            cut.add(other, node, cost)
        elif others:
            all_last, any_last = object(), object()
            cut.add(node, all_last, cost)
            cut.add(any_last, node, cost)
            for other in others:
                cut.add(all_last, other, None)
                cut.add(other, any_last, None)
    return {value for value in cut.source_side(last, first) if value in free}


def _cost(value: SubgraphValue) -> int:
    """Return the cost of changing the layout of a value: `_SCALE` per element, or 1 per element for a reshape.

    An int8 image with few channels is slower to transpose than a float image of the same size, so it costs 1 more: if
    the cut may transpose either, it chooses the float image.
    """
    is_slow = value.quantization is not None and value.shape[1] <= FEW_CHANNELS
    return value.size * (1 if value.has_one_order else _SCALE) + is_slow


def _is_free(op: SubgraphNode) -> bool:
    """Return True if the output of an operation may have either layout."""
    return op.rule is SAME_LAYOUT or (isinstance(op.rule, FixedLayouts) and op.rule.output is None)


class _Cut:
    """A minimum cut between two nodes, found by augmenting along shortest paths."""

    def __init__(self) -> None:
        self.capacity: dict[Any, dict[Any, float]] = {}

    def add(self, a: Any, b: Any, cost: float | None) -> None:
        """Add an edge that costs `cost` if the cut puts `a` on the source's side and `b` on the sink's side.

        None is an infinite cost.
        """
        edges = self.capacity.setdefault(a, {})
        edges[b] = edges.get(b, 0) + (float("inf") if cost is None else cost)
        self.capacity.setdefault(b, {}).setdefault(a, 0)

    def source_side(self, source: Any, sink: Any) -> set[Any]:
        """Return the nodes on the source's side of the minimum cut.

        If there are several minimum cuts, the result is the cut with the fewest nodes on the source's side. It is
        unique, so that the result does not depend on the order in which paths are found.
        """
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
        """Search edges with residual capacity breadth first from `source`; map each reached node to its predecessor."""
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
    """Applies the layouts chosen for a subgraph: inserts transposes, and permutes attributes and constants to match."""

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
        has_same_layout = op.rule is SAME_LAYOUT and op.output.has_layouts
        wanted = (
            op.output.layout
            if has_same_layout
            else op.rule.input
            if isinstance(op.rule, FixedLayouts)
            else Layout.FIRST
        )
        op.inputs = [self._operand(value, wanted, has_same_layout, op.handles) for value in op.inputs]
        if has_same_layout and wanted == Layout.LAST:
            order = TO_LAST[len(op.output.shape)]
            for name in BY_DIMENSION & op.attributes.keys():
                op.attributes[name] = tuple(op.attributes[name][i] for i in order)
            if "axis" in op.attributes:
                op.attributes["axis"] = order.index(op.attributes["axis"])
        if op.kind is g.StaticReshape:
            op.attributes["new_shape"] = op.output.dims

    def _operand(
        self, value: SubgraphValue, wanted: Layout | None, permutes_constants: bool, handles: tuple[int, ...]
    ) -> SubgraphValue:
        if not value.has_layouts or wanted is None:
            return value
        if value.constant is not None:
            return self._constant(value) if permutes_constants and wanted == Layout.LAST else value
        return self._with_layout(value, wanted, handles)

    def _constant(self, value: SubgraphValue) -> SubgraphValue:
        if value not in self.converted:
            assert value.constant is not None
            layout_changed: Array = np.ascontiguousarray(value.constant.transpose(TO_LAST[len(value.shape)]))
            self.converted[value] = SubgraphValue(value.shape, layout_changed, Layout.LAST)
        return self.converted[value]

    def _with_layout(self, value: SubgraphValue, wanted: Layout, handles: tuple[int, ...]) -> SubgraphValue:
        """Return `value` in the layout `wanted`; insert one transpose, or reshape if that suffices, for all readers."""
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
