"""Compare two sweeps: regressions first (a lost cell that was ok is one), then improvements and other changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgecore.sweeps.results.result import CellResult

_FIGURES = (
    ("file_bytes", "the file has", "bytes", 0.01),
    ("planned_bytes", "the arenas have", "bytes", 0.01),
    ("delegate_bytes", "delegates need", "bytes", 0.01),
    ("cycles", "a run takes an estimated", "cycles", 0.01),
    ("median_ms", "a run takes", "ms", 0.1),
)
"""Metrics where lower is better: (field, phrase, unit, smallest relative change worth reporting)."""
_QUALITIES = (
    ("accuracy", "the accuracy is", "", 1e-3),
    ("sqnr_db", "the SQNR is", "dB", 1.0),
    ("delegated", "delegates compute", "of the operators", 1e-3),
)
"""Metrics where higher is better: (field, phrase, unit, smallest difference worth reporting)."""


@dataclass(frozen=True)
class Change:
    """A difference between two sweeps in one cell, that is, one model, backend, recipe, runtime and number of threads.

    Attributes:
        cell: Name of the cell.
        what: The difference, with both values.
        worse: True for a regression.
        size: Sort key, larger for larger differences.
    """

    cell: str
    what: str
    worse: bool
    size: float


def compare_sweeps(old: Sequence[CellResult], new: Sequence[CellResult]) -> list[Change]:
    """Compare the cells that have the same name in two sweeps.

    A difference counts if it exceeds 1 % of bytes or cycles, 10 % of a time, 0.001 in an accuracy or in the delegated
    share, or 1 dB in an SQNR.

    Returns:
        The differences: the regressions first, each group with the largest first.
    """
    before = {row.cell: row for row in old}
    changes: list[Change] = []
    for row in new:
        known = before.pop(row.cell, None)
        if known is None:
            changes.append(Change(row.cell, f"new: {row.status}", False, 0.0))
        else:
            changes += _changes(known, row)
    changes += [Change(name, f"is gone; it was {row.status}", row.status == "ok", 0.0) for name, row in before.items()]
    return sorted(changes, key=lambda change: (not change.worse, -change.size))


def _changes(old: CellResult, new: CellResult) -> Iterator[Change]:
    if old.status != new.status:
        order = ("ok", "made", "skipped", "wrong", "failed")
        reason = f" ({new.reason})" if new.reason else ""
        worse = order.index(new.status) > order.index(old.status)
        yield Change(new.cell, f"is {new.status}{reason}, and was {old.status}", worse, math.inf)
    for name, words, unit, noticeable in _FIGURES:
        a, b = getattr(old, name), getattr(new, name)
        if a is None or b is None or abs(b - a) <= noticeable * a:
            continue
        ratio = b / a if a else math.inf
        text = f"{words} {b:,.6g} {unit}, and {a:,.6g} before"
        yield Change(new.cell, text, b > a, abs(math.log(ratio)) if ratio else math.inf)
    for name, words, unit, noticeable in _QUALITIES:
        a, b = getattr(old, name), getattr(new, name)
        if a is None or b is None or a == b or abs(b - a) <= noticeable:
            continue
        text = f"{words} {b:.6g} {unit}".rstrip()
        yield Change(new.cell, f"{text}, and {a:.6g} before", b < a, min(abs(b - a) / (abs(a) or 1.0), 1e9))
