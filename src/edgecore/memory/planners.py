"""Algorithms that place tensors in an arena. Each sets `mem_offset` of the given specs and returns the arena's size."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from edgecore.memory.specs import TensorSpec

Planner = Callable[[Sequence[TensorSpec], int], int]
"""(specs of one arena, alignment in bytes) -> size of the arena in bytes; sets `mem_offset` of every spec.

Specs with the same memory (views, results computed in place) come as one. Whatever a planner does is checked.
"""


def naive(specs: Sequence[TensorSpec], alignment: int) -> int:
    """One after another, nothing shared: the upper bound that others are compared with."""
    end = 0
    for spec in specs:
        spec.mem_offset = end
        end = align(end + spec.nbytes, alignment)
    return end


def greedy(specs: Sequence[TensorSpec], alignment: int) -> int:
    """Greatest first; each at the lowest offset where it meets no tensor that lives at the same time."""
    problem = _Problem(specs, alignment)
    return problem.apply(problem.place(problem.by_size(), best_fit=False))


def best_fit(specs: Sequence[TensorSpec], alignment: int) -> int:
    """The best of several orders, each by the first and by the tightest gap; stops at the lower bound."""
    problem = _Problem(specs, alignment)
    return problem.apply(problem.best_order()[1])


def annealed(specs: Sequence[TensorSpec], alignment: int, *, effort: int = 500_000, seed: int = 0) -> int:
    """`best_fit`, then a search that changes its order; the same `seed` and `effort` give the same plan on any machine.

    Each step moves a tensor, mostly one at the top of the arena, to an earlier turn; what is no worse is kept. `effort` counts
    the pairs of tensors that are compared; 500,000 take about 0.1 s. Stops at the lower bound.
    """
    problem = _Problem(specs, alignment)
    steps = effort // (sum(map(len, problem.rivals)) or 1)
    return problem.apply(problem.improve(*problem.best_order(), steps, random.Random(seed)))


def searching(effort: int, seed: int = 0) -> Planner:
    """`annealed` with another effort."""
    return partial(annealed, effort=effort, seed=seed)


def lower_bound(specs: Sequence[TensorSpec], alignment: int) -> int:
    """The maximum sum of bytes, each rounded up to `alignment`, that live at one time."""
    sizes = np.array([align(spec.nbytes, alignment) for spec in specs], np.int64)
    first, last = _lifetimes(specs)
    changes = np.zeros(int(last.max(initial=0)) + 2, np.int64)
    np.add.at(changes, first, sizes)
    np.subtract.at(changes, last + 1, sizes)
    return int(changes.cumsum().max(initial=0))


_Placement = tuple[int, list[int]]  # size of the arena, offset by spec


class _Problem:
    """Sizes and conflicts of the specs of an arena."""

    def __init__(self, specs: Sequence[TensorSpec], alignment: int) -> None:
        self.specs = specs
        self.sizes = [align(spec.nbytes, alignment) for spec in specs]
        self.bound = lower_bound(specs, alignment)
        first, last = _lifetimes(specs)
        meets = (first[:, None] <= last[None, :]) & (first[None, :] <= last[:, None])
        self.rivals = [np.flatnonzero(row).tolist() for row in meets]

    def apply(self, placement: _Placement) -> int:
        for spec, offset in zip(self.specs, placement[1], strict=True):
            spec.mem_offset = offset
        return placement[0]

    def by_size(self) -> list[int]:
        return sorted(range(len(self.sizes)), key=lambda i: (-self.sizes[i], self.specs[i].lifetime))

    def orders(self) -> list[list[int]]:
        """By size; by bytes times time; by the bytes of rivals; those of the fullest moment first; by time of birth."""
        size, life = self.sizes, [spec.lifetime for spec in self.specs]
        everyone = range(len(size))
        crowd = [sum(size[j] for j in rivals) for rivals in self.rivals]
        return [
            self.by_size(),
            sorted(everyone, key=lambda i: (-size[i] * (life[i][1] - life[i][0] + 1), life[i])),
            sorted(everyone, key=lambda i: (-crowd[i], -size[i], life[i])),
            sorted(everyone, key=lambda i: (life[i][0] - life[i][1], -size[i], life[i])),
            sorted(everyone, key=lambda i: (life[i][0], -size[i])),
        ]

    def best_order(self) -> tuple[list[int], _Placement]:
        found: tuple[list[int], _Placement] | None = None
        for order in self.orders():
            for fit in (False, True):
                placement = self.place(order, best_fit=fit)
                if found is None or placement[0] < found[1][0]:
                    found = order, placement
                if found[1][0] <= self.bound:
                    return found
        assert found is not None
        return found

    def improve(self, order: list[int], best: _Placement, steps: int, rng: random.Random) -> _Placement:
        current = best[0]
        placed = best
        for _ in range(steps):
            if best[0] <= self.bound:
                break
            top = [i for i in order if placed[1][i] + self.sizes[i] == placed[0] and self.sizes[i]]
            mover = rng.choice(top) if rng.random() < 0.7 else rng.choice(order)
            at = order.index(mover)
            changed = [i for i in order if i != mover]
            changed.insert(rng.randrange(at + 1), mover)
            trial = self.place(changed, best_fit=False)
            if trial[0] <= current:
                order, current, placed = changed, trial[0], trial
            if trial[0] < best[0]:
                best = trial
        return best

    def place(self, order: Sequence[int], *, best_fit: bool) -> _Placement:
        """Each tensor in turn into the first gap between its rivals that is wide enough, or into the tightest."""
        offsets = [-1] * len(self.sizes)
        end = 0
        for i in order:
            size = self.sizes[i]
            taken = sorted((offsets[j], offsets[j] + self.sizes[j]) for j in self.rivals[i] if offsets[j] >= 0)
            position, chosen, waste = 0, -1, 0
            for start, stop in taken:
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
    """Whether two tensors live at the same time."""
    return a.lifetime[0] <= b.lifetime[1] and b.lifetime[0] <= a.lifetime[1]


def align(value: int, alignment: int) -> int:
    """`value` rounded up to a multiple of `alignment`."""
    return -(-value // alignment) * alignment
