"""Padding with a constant, used by other operators."""

from __future__ import annotations

from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import SAME_LAYOUT, SubgraphValue
from edgecore_xnnpack.schema import graph as g


def pad(
    low: Lowering, value: SubgraphValue, before: tuple[int, ...], after: tuple[int, ...], number: float
) -> SubgraphValue:
    """Pad each dim of `value` with `before` elements at its start and `after` at its end, all equal to `number`."""
    shape = tuple(a + size + b for a, size, b in zip(before, value.shape, after, strict=True))
    return low.emit(
        g.StaticConstantPad, [value], shape, SAME_LAYOUT, pre_paddings=before, post_paddings=after, padding_value=number
    )
