"""Algorithms that place tensors in an arena. Each sets `mem_offset` of the given specs and returns the arena's size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgecore.memory.specs import TensorSpec

Planner = Callable[[Sequence[TensorSpec], int], int]
"""(specs of one arena, alignment in bytes) -> size of the arena in bytes."""


def naive(specs: Sequence[TensorSpec], alignment: int) -> int:
    """One after another, nothing shared: the upper bound that others are compared with."""
    end = 0
    for spec in specs:
        spec.mem_offset = end
        end = align(end + spec.nbytes, alignment)
    return end


def greedy(specs: Sequence[TensorSpec], alignment: int) -> int:
    """Greatest first; each at the lowest offset where it meets no tensor that lives at the same time."""
    placed: list[TensorSpec] = []
    end = 0
    for spec in sorted(specs, key=lambda spec: (-spec.nbytes, spec.lifetime)):
        rivals = sorted((other for other in placed if overlap(spec, other)), key=lambda other: other.mem_offset)
        offset = 0
        for rival in rivals:
            if offset + spec.nbytes <= rival.mem_offset:
                break
            offset = max(offset, align(rival.mem_offset + rival.nbytes, alignment))
        spec.mem_offset = offset
        placed.append(spec)
        end = max(end, align(offset + spec.nbytes, alignment))
    return end


def overlap(a: TensorSpec, b: TensorSpec) -> bool:
    """Whether two tensors live at the same time."""
    return a.lifetime[0] <= b.lifetime[1] and b.lifetime[0] <= a.lifetime[1]


def align(value: int, alignment: int) -> int:
    """`value` rounded up to a multiple of `alignment`."""
    return -(-value // alignment) * alignment
