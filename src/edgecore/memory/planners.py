"""Planners: algorithms that give the tensors of one arena their offsets."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from edgecore.memory.specs import TensorSpec

Planner = Callable[[Sequence[TensorSpec], int], int]
"""A function that takes the tensor specs of one arena and the alignment in bytes, sets `mem_offset` of every spec, and
returns the arena's size in bytes.

Tensors that share memory (views, results computed in place) are a single spec. The compiler checks the offsets.
"""


def naive(specs: Sequence[TensorSpec], alignment: int) -> int:
    """Place the tensors one after another without sharing bytes: an upper bound for other planners."""
    end = 0
    for spec in specs:
        spec.mem_offset = end
        end = align(end + spec.nbytes, alignment)
    return end


def greedy(specs: Sequence[TensorSpec], alignment: int) -> int:
    """Place tensors from the largest to the smallest, each at the lowest offset that is free during its lifetime."""
    problem = _Problem(specs, alignment)
    return problem.apply(problem.place(problem.by_size(), best_fit=False))


def best_fit(specs: Sequence[TensorSpec], alignment: int) -> int:
    """Try five orders of placement, each with the first and with the tightest gap that fits; use the smallest arena."""
    problem = _Problem(specs, alignment)
    return problem.apply(problem.best_order()[1])


def annealed(specs: Sequence[TensorSpec], alignment: int, *, effort: int = 500_000, seed: int = 0) -> int:
    """Run `best_fit`, then search for a better order of placement until the lower bound or `effort` is reached.

    Each step moves one tensor, usually one at the top of the arena, to an earlier position in the order, and keeps the
    new order if the arena does not grow.

    The search pays off in some networks: of 13 networks of `tests/zoo.py` (portable kernels, 2026-11-22), `best_fit`
    reaches the lower bound for 11. For convnext_tiny it needs 8,429,568 bytes, and the search finds the bound,
    7,225,344, in 20 ms.

    Args:
        specs: The tensors of one arena.
        alignment: Divisor of every offset, in bytes.
        effort: Number of pairs of tensors to compare; 500,000 take about 0.1 s. This number limits the search, instead
            of a time, so that the plan is the same on every machine.
        seed: Seed of the random choices.

    Returns:
        The size of the arena in bytes.
    """
    problem = _Problem(specs, alignment)
    steps = effort // (sum(map(len, problem.conflicts)) or 1)
    return problem.apply(problem.improve(*problem.best_order(), steps, random.Random(seed)))


def searching(effort: int, seed: int = 0) -> Planner:
    """Return the planner `annealed`, but with this effort and seed."""
    return partial(annealed, effort=effort, seed=seed)


def lower_bound(specs: Sequence[TensorSpec], alignment: int) -> int:
    """Return a lower bound of the arena's size: the largest total size of tensors that are live at the same time.

    Each size is rounded up to a multiple of `alignment`.
    """
    sizes = np.array([align(spec.nbytes, alignment) for spec in specs], np.int64)
    first, last = _lifetimes(specs)
    changes = np.zeros(int(last.max(initial=0)) + 2, np.int64)
    np.add.at(changes, first, sizes)
    np.subtract.at(changes, last + 1, sizes)
    return int(changes.cumsum().max(initial=0))


_Placement = tuple[int, list[int]]  # (size of the arena in bytes, offset of each tensor)


class _Problem:
    """The tensors of one arena, by index: their sizes, and their conflicts (the tensors live at the same time)."""

    def __init__(self, specs: Sequence[TensorSpec], alignment: int) -> None:
        self.specs = specs
        self.sizes = [align(spec.nbytes, alignment) for spec in specs]
        self.bound = lower_bound(specs, alignment)
        first, last = _lifetimes(specs)
        overlaps = (first[:, None] <= last[None, :]) & (first[None, :] <= last[:, None])
        self.conflicts = [np.flatnonzero(row).tolist() for row in overlaps]

    def apply(self, placement: _Placement) -> int:
        for spec, offset in zip(self.specs, placement[1], strict=True):
            spec.mem_offset = offset
        return placement[0]

    def by_size(self) -> list[int]:
        return sorted(range(len(self.sizes)), key=lambda i: (-self.sizes[i], self.specs[i].lifetime))

    def orders(self) -> list[list[int]]:
        """Return the orders of placement that `best_fit` tries.

        The tensors are sorted by descending size, by descending size * lifetime, by descending total size of the
        tensors that are live at the same time, by descending lifetime, and by ascending start of the lifetime.
        """
        size, life = self.sizes, [spec.lifetime for spec in self.specs]
        indices = range(len(size))
        conflict_bytes = [sum(size[j] for j in conflicts) for conflicts in self.conflicts]
        return [
            self.by_size(),
            sorted(indices, key=lambda i: (-size[i] * (life[i][1] - life[i][0] + 1), life[i])),
            sorted(indices, key=lambda i: (-conflict_bytes[i], -size[i], life[i])),
            sorted(indices, key=lambda i: (life[i][0] - life[i][1], -size[i], life[i])),
            sorted(indices, key=lambda i: (life[i][0], -size[i])),
        ]

    def best_order(self) -> tuple[list[int], _Placement]:
        """Return the order of placement that gives the smallest arena, and its placement; stop at the lower bound."""
        best: tuple[list[int], _Placement] | None = None
        for order in self.orders():
            for fit in (False, True):
                placement = self.place(order, best_fit=fit)
                if best is None or placement[0] < best[1][0]:
                    best = order, placement
                if best[1][0] <= self.bound:
                    return best
        assert best is not None
        return best

    def improve(self, order: list[int], best: _Placement, steps: int, rng: random.Random) -> _Placement:
        """Move tensors one by one to earlier positions of `order`, at most `steps` times; return the best placement.

        A move that enlarges the arena is undone.
        """
        current = best
        for _ in range(steps):
            if best[0] <= self.bound:
                break
            size, offsets = current
            # To shrink the arena, all tensors that end at its top must move to lower offsets, so mostly pick one of
            # them.
            top = [i for i in order if offsets[i] + self.sizes[i] == size and self.sizes[i]]
            moved = rng.choice(top) if rng.random() < 0.7 else rng.choice(order)
            position = order.index(moved)
            new_order = [i for i in order if i != moved]
            new_order.insert(rng.randrange(position + 1), moved)
            candidate = self.place(new_order, best_fit=False)
            if candidate[0] <= size:
                order, current = new_order, candidate
            if candidate[0] < best[0]:
                best = candidate
        return best

    def place(self, order: Sequence[int], *, best_fit: bool) -> _Placement:
        """Place the tensors in this order, each in the first wide enough gap, or with `best_fit` in the tightest."""
        offsets = [-1] * len(self.sizes)
        end = 0
        for i in order:
            size = self.sizes[i]
            occupied = sorted((offsets[j], offsets[j] + self.sizes[j]) for j in self.conflicts[i] if offsets[j] >= 0)
            position, chosen, waste = (
                0,
                -1,
                0,
            )  # position: end of occupied bytes so far; chosen: offset of the best gap, or -1; waste: its unused bytes
            for start, stop in occupied:
                gap = start - position
                if gap >= size and (chosen < 0 or gap - size < waste):
                    chosen, waste = position, gap - size
                    if not best_fit:
                        break
                position = max(position, stop)
            offsets[i] = chosen if chosen >= 0 else position
            end = max(end, offsets[i] + size)
        return end, offsets


def _lifetimes(specs: Sequence[TensorSpec]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array([spec.lifetime for spec in specs], np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def overlap(a: TensorSpec, b: TensorSpec) -> bool:
    """Return True if two tensors are live at the same time."""
    return a.lifetime[0] <= b.lifetime[1] and b.lifetime[0] <= a.lifetime[1]


def align(value: int, alignment: int) -> int:
    """Return `value` rounded up to a multiple of `alignment`."""
    return -(-value // alignment) * alignment
