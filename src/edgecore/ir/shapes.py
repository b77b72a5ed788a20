"""Sizes and dims of a node's result, for functions that lower operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def shape(node: Any) -> tuple[Any, ...]:
    """Return the sizes of a node's result, which may be symbolic."""
    return tuple(node.meta["val"].shape)


def rank(node: Any) -> int:
    """Return the number of dims of the result of a node."""
    return len(shape(node))


def axes(dims: Sequence[int] | None, node: Any) -> list[int]:
    """Convert negative `dims` of a node's result to nonnegative ones; return all dims if `dims` is None or empty."""
    count = rank(node)
    return [dim % count for dim in dims] if dims else list(range(count))


def swapped_axes(first: int, second: int, node: Any) -> list[int]:
    """Return the dims of a node's result with two of them swapped: `transpose` as a permutation."""
    order = list(range(rank(node)))
    if order:
        order[first], order[second] = order[second], order[first]
    return order


def pads_of_dims(pad: Sequence[int], count: int) -> tuple[list[int], list[int]]:
    """Convert the argument `pad` of `constant_pad_nd`, which begins with the last dim, to pads of `count` dims.

    Returns:
        The numbers of elements to add before and after each dim.
    """
    before, after = [0] * count, [0] * count
    for index in range(len(pad) // 2):
        before[count - 1 - index], after[count - 1 - index] = pad[2 * index : 2 * index + 2]
    return before, after
