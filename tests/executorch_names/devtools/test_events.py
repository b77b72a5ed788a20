"""Events, their times and blocks that scripts make themselves, beside executorch's classes of the same names."""

from __future__ import annotations

import math
from typing import Any

import pytest

from edgecore import devtools


def block(library: Any) -> Any:
    """Return a block with an event inside a delegate, and one without times."""
    inside = library.Event(
        name="conv",
        perf_data=library.PerfData(raw=[3.0, 1.0, 2.5, 9.0]),
        op_types=["aten.conv", "aten.relu"],
        delegate_debug_identifier=7,
        debug_handles=[1, 2],
        num_outputs=2,
        stack_traces={"conv_": "line 1"},
        module_hierarchy={"conv_": {"L__self__": ("", "Net")}},
        is_delegated_op=True,
        delegate_backend_name="Acme",
        debug_data=[1.5],
        _delegate_debug_metadatas=["a", "b"],
        _delegate_metadata_parser=lambda metadatas: {"runs": len(metadatas), "first": metadatas[0]},
    )
    return library.EventBlock(
        name="Execute",
        events=[inside, library.Event(name="add", op_types=[f"aten.{number}" for number in range(6)])],
        source_time_scale=library.TimeScale.NS,
        target_time_scale=library.TimeScale.US,
        bundled_input_index=1,
        run_output=[2.0],
        reference_output=[3.0],
    )


def cells(table: Any) -> dict[str, list[Any]]:
    """Return the columns of a data frame, with numbers in nine digits, and None for those that are missing."""
    return {title: [cell(value) for value in column] for title, column in table.to_dict("list").items()}


def cell(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else f"{value:.9g}"


def test_blocks_of_a_script_have_the_rows_that_executorch_gives_them() -> None:
    ours, theirs = block(devtools), block(pytest.importorskip("executorch.devtools.inspector"))
    for units in (True, False):
        for metadata in (True, False):
            options = {"include_units": units, "include_delegate_debug_data": metadata}
            table, expected = (blocks.to_dataframe(**options) for blocks in (ours, theirs))
            assert cells(table) == cells(expected)
    event, peer = ours.events[0], theirs.events[0]
    assert event.delegate_debug_metadatas == peer.delegate_debug_metadatas == {"runs": 2, "first": "a"}
    assert event.raw_delegate_debug_metadatas == peer.raw_delegate_debug_metadatas == ["a", "b"]
    assert list(event.asdict(_units="!")) == list(peer.asdict(_units="!"))
    assert list(event.to_dataframe(_units="!").columns) == list(peer.to_dataframe(_units="!").columns)
    assert (event.num_outputs, event.debug_handles) == (peer.num_outputs, peer.debug_handles)
    assert (ours.bundled_input_index, ours.run_output, ours.reference_output) == (1, [2.0], [3.0])
    assert {f"{name} (us)" for name in ("p10", "p50", "avg")} < {*ours.rows(include_units=True)[0]}
