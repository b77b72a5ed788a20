"""Which recorded values the numeric gap compares, and with what. test_records.py compares whole files with executorch."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from edgecore.devtools import MSEComparator
from edgecore.executorch.devtools.events import Event
from edgecore.executorch.devtools.numeric_gap import _gap, _pair, _recorded

A = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.0, -4.0]])


def event(name: str, handles: int | list[int], instruction: int, *values: Any, inside: bool = False) -> Event:
    return Event(
        name, op_types=["add"], debug_handles=handles, debug_data=[*values], _instruction_id=instruction,
        is_delegated_op=inside,
    )  # fmt: skip


def groups(events: Sequence[Event]) -> dict[tuple[int, ...], list[str]]:
    return {group.handles: [one.name for one in group.events] for group in _recorded(events)}


def test_events_with_a_handle_in_common_are_one_row_of_the_last_event() -> None:
    parts = [event("part", [2, 7], 1, A), event("rest", [5, 7], 3, A), event("last", [7, 9], 4, A)]
    other = event("other", 8, 2, A)
    assert groups([*parts, other]) == {(2, 5, 7, 9): ["part", "rest", "last"], (8,): ["other"]}
    assert groups([parts[2], other, parts[0], parts[1]]) == groups([*parts, other])
    # Inside a delegate all have the number of its instruction; the order of events is that of execution.
    inside = [event("Multiply", [1], 0, A, inside=True), event("Add", [1, 3], 0, A, inside=True)]
    assert groups(inside) == {(1, 3): ["Multiply", "Add"]}


def test_sets_of_handles_are_joined_as_by_executorch() -> None:
    utilities = pytest.importorskip("executorch.devtools.inspector._inspector_utils")
    draw = random.Random(0)
    for _ in range(200):
        sets = [tuple(draw.sample(range(12), draw.randint(1, 3))) for _ in range(draw.randint(1, 8))]
        unique = {handles: number for number, handles in enumerate(sets)}  # of equal ones the last
        expected = utilities.merge_runtime_overlapping_debug_handles(
            {handles: (number, number, 1) for handles, number in unique.items()}
        )
        found = _recorded([event("", list(handles), number, number) for number, handles in enumerate(sets)])
        assert {(frozenset(group.handles), group.handles[-1], group.events[-1].debug_data[0]) for group in found} == {
            (frozenset(handles), handles[-1], number) for handles, (number, _, _) in expected.items()
        }


def test_a_call_of_a_delegate_counts_only_if_its_operations_have_no_values() -> None:
    call, other = event("DELEGATE_CALL", [1, 2], 0, A), event("OPERATOR_CALL", 1, 0, A)
    assert groups([call, other, event("Add", [2], 0, inside=True)]) == {(1, 2): ["DELEGATE_CALL"]}
    assert groups([call, event("Add", [2], 0, A, inside=True)]) == {(2,): ["Add"]}


def test_outputs_of_an_operator_are_compared_one_by_one() -> None:
    mean = torch.ones(2, 1)
    for recorded in ([A, mean], [[A, mean]]):
        assert _gap(MSEComparator(), *_pair((A, mean + 2), recorded)) == [0, 4]
        assert _gap(MSEComparator(), *_pair(A + 1, recorded)) == [1]  # a graph in which it has one output
    assert _gap(MSEComparator(), *_pair((mean, A), [A])) == [0]  # a delegate has recorded one of them
    mask = A > 0
    assert _pair(mask, [A, mask])[1] is mask
    first, second = A, A + 1
    assert _pair(first, [first, second])[1] is second  # nothing distinguishes them


def test_values_that_cannot_be_matched_have_no_gap() -> None:
    for pair in (_pair((A, A), [A]), ((A, A), (A,)), (A, (A,)), (A, A[:1]), (A, 3)):
        assert math.isnan(*_gap(MSEComparator(), *pair))
    assert _gap(MSEComparator(), A, A.reshape(1, 3, 2)) == [0]  # a view, which no runtime runs
