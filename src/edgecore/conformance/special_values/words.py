"""Format differences as a Markdown table; operators, dtypes and inputs with equal results share a row."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from edgecore.conformance.special_values.calls import NUMBERS, ORDINARY, Label
from edgecore.ir.dialect.dtypes import dtype_name

if TYPE_CHECKING:
    from edgecore.conformance.special_values.measure import Difference

TITLES = ("operators", "dtypes", "inputs", "PyTorch", "here")

SPECIAL = ("NaN", "inf", "-inf", "denormal")
ELEMENTS = (*SPECIAL, *NUMBERS)
PLACES = ("first", "in the middle", "last")

NONE = "No operator that was tried differs from PyTorch."

LEGEND = """\
Inputs are what an element of the result reads: an element, a pair of operands (of `where` the chosen element, then the
other), or a row or window with special elements in one place or everywhere. A number is an ordinary one, also 0 where 0
is not named; a large number is one of 10,000 or more. "A or B": A for some of these inputs, other operands, places or
arguments, and B for others.
"""


def table(differences: Iterable[Difference], none: str = NONE) -> str:
    """Format the differences as a Markdown table; return `none` if there are no differences."""
    by_result: dict[tuple[str, str, str, str], set[Label]] = {}
    for (operator, dtype, reads), (expected, result) in _results(differences).items():
        by_result.setdefault((operator, dtype, expected, result), set()).add(reads)
    dtypes: dict[tuple[str, str, str, str], list[str]] = {}
    for (operator, dtype, expected, result), labels in sorted(by_result.items(), reverse=True):
        key = (operator, "; ".join(_describe(labels)), expected, result)
        dtypes.setdefault(key, []).append(dtype)
    operators: dict[tuple[str, str, str, str], list[str]] = {}
    for (operator, inputs, expected, result), names in dtypes.items():
        operators.setdefault((inputs, expected, result, ", ".join(names)), []).append(operator)
    rows = [
        (", ".join(f"`{_short(name)}`" for name in sorted(names)), dtype_names, inputs, expected, result)
        for (inputs, expected, result, dtype_names), names in operators.items()
    ]
    rows.sort(key=lambda row: (_rank(row[2]), *row))
    return (
        "".join(f"| {' | '.join(row)} |\n" for row in (TITLES, ["---"] * len(TITLES), *rows)) if rows else f"{none}\n"
    )


def tried(inside: Mapping[str, Sequence[str]], outside: Mapping[str, Sequence[str]]) -> str:
    """Say how many operators of the backend's table ran in it, which did not, and how to read the differences."""
    dtypes = sorted({dtype for names in inside.values() for dtype in names}, reverse=True)
    counts = [f"{sum(dtype in names for names in inside.values())} in {dtype}" for dtype in dtypes]
    text = f"Operators that were tried: {', '.join(counts)}."
    if missing := [f"`{_short(name)}`" for name in sorted(outside) if name not in inside]:
        text += f" Not tried, as they run here on integers only, or in other ways only: {', '.join(missing)}."
    return "\n".join(textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)) + f"\n\n{LEGEND}"


def highest(value: float) -> str:
    """Name a large number, such as "largest float16", "lowest float32" or "-large number"."""
    for dtype in (torch.float32, torch.float16):
        if abs(value) == torch.finfo(dtype).max:
            return f"{'largest' if value > 0 else 'lowest'} {dtype_name(dtype)}"
    return "large number" if value > 0 else "-large number"


def _results(differences: Iterable[Difference]) -> dict[tuple[str, str, Label], tuple[str, str]]:
    """Join the results that equal inputs give in different places into one text, such as "NaN or inf"."""
    joined: dict[tuple[str, str, Label], tuple[set[str], set[str]]] = {}
    for row in differences:
        expected, result = joined.setdefault((row.operator, row.dtype, row.reads), (set(), set()))
        expected.add(row.expected)
        result.add(row.result)
    return {key: (" or ".join(sorted(wanted)), " or ".join(sorted(got))) for key, (wanted, got) in joined.items()}


def _short(operator: str) -> str:
    return operator.removeprefix("aten.").removesuffix(".default")


def _rank(inputs: str) -> int:
    """Return a sort key: the index in `SPECIAL` of the special element that a row names first."""
    places = [inputs.find(name) for name in SPECIAL]
    return min((place, index) for index, place in enumerate(places) if place >= 0)[1] if max(places) >= 0 else 9


def _describe(labels: Collection[Label]) -> list[str]:
    """Describe the labelled input elements briefly: first single elements, then elements at a place, then pairs."""
    single = [label for (label, *rest) in labels if not rest]
    pairs = {label for label in labels if len(label) == 2 and label[1] in ELEMENTS}
    placed = {label for label in labels if len(label) == 2 and label[1] not in ELEMENTS}
    return [*_singles(single), *_placed(placed), *_pairs(pairs)]


def _singles(names: Collection[str]) -> list[str]:
    plain = _join([name for name in names if name in ELEMENTS])
    return [*plain, *sorted(name for name in names if name not in ELEMENTS)]


def _join(names: Collection[str]) -> list[str]:
    """Sort names of elements, and replace the three kinds of ordinary numbers by "number" if all are present."""
    ordered = [name for name in ELEMENTS if name in names]
    if set(NUMBERS) <= set(ordered):
        ordered = [*(name for name in ordered if name not in NUMBERS), "number"]
    return ordered


def _placed(labels: Collection[Label]) -> list[str]:
    words = []
    for name in dict.fromkeys((*SPECIAL, ORDINARY, *sorted(label[0] for label in labels))):
        places = [place for place in (*PLACES, "only") if (name, place) in labels]
        if set(PLACES) <= set(places):
            words.append(f"{name} among numbers")
            places = [place for place in places if place not in PLACES]
        words += [f"only {name}" if place == "only" else f"{name} {place}" for place in places]
    return words


def _pairs(labels: Collection[Label]) -> list[str]:
    """Describe pairs of operands: "(NaN, any)" stands for all pairs whose first operand is NaN."""
    words = []
    rest = set(labels)
    for name in ELEMENTS:
        if {(other, name) for other in ELEMENTS} <= set(labels):
            words.append(f"(any, {name})")
            rest -= {(other, name) for other in ELEMENTS}
    of_first: dict[str, list[str]] = {}
    for name in ELEMENTS:
        seconds = {second for first, second in labels if first == name}
        if seconds & {second for first, second in rest if first == name}:
            of_first.setdefault(_seconds(seconds), []).append(name)
    return [*(f"({' or '.join(_join(firsts))}, {seconds})" for seconds, firsts in of_first.items()), *words]


def _seconds(names: set[str]) -> str:
    missing = set(ELEMENTS) - names
    if not missing:
        return "any"
    if len(missing) == 1:
        return f"not {missing.pop()}"
    return " or ".join(_join(names))
