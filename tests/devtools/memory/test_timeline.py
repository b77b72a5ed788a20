"""Memory over time, from a `.pte`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import edgecore
from edgecore.devtools import allocations, generate_memory_trace


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 32)
        self.second = torch.nn.Linear(32, 8)
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.second(torch.sigmoid(self.first(x))) + self.calls.sum()


def program() -> edgecore.pipeline.ExecutorchProgramManager:
    exported = torch.export.export(Network().eval(), (torch.randn(2, 8),))
    return edgecore.to_edge(exported).to_executorch()


def test_tensors_that_live_at_once_do_not_overlap() -> None:
    rows = allocations(program().pte)
    by_name = {row.name.split()[0]: row for row in rows}
    assert {"buffer", "linear", "sigmoid"} <= set(by_name)
    assert by_name["sigmoid"].bytes == 2 * 32 * 4
    assert by_name["sigmoid"].operator == "aten.sigmoid.default"
    assert by_name["linear"].module in ("first", "second")
    kept = by_name["buffer"]
    assert (kept.first, kept.last) == (0, max(row.last for row in rows))
    for row in rows:
        for other in rows:
            apart = row.last < other.first or other.last < row.first or row.memory_id != other.memory_id
            beside = row.offset + row.bytes <= other.offset or other.offset + other.bytes <= row.offset
            same = row.offset == other.offset and row.bytes == other.bytes  # computed in place, or a view
            assert apart or beside or same or row is other, (row, other)


@pytest.mark.parametrize("offsets", [False, True])
def test_a_memory_trace_has_the_form_of_executorch(tmp_path: Path, offsets: bool) -> None:
    manager = program()
    generate_memory_trace(manager, tmp_path / "memory.json", enable_memory_offsets=offsets)
    events = json.loads((tmp_path / "memory.json").read_text())["traceEvents"]
    assert {event["cat"] for event in events} == {"memory_allocation"}
    assert set(events[0]["args"]) == {"op_name", "Memory ID", "fqn", "source", "bytes"}
    if offsets:
        peak = max(event["ts"] + event["dur"] for event in events)
        assert peak <= max(manager.pte.program.execution_plan[0].non_const_buffer_sizes)
    else:
        first = [event for event in events if event["tid"] == 0 and event["pid"] == 1]
        assert [event["ts"] for event in first] == [sum(e["dur"] for e in first[:i]) for i in range(len(first))]
    manager.save(tmp_path / "model.pte")
    generate_memory_trace(tmp_path / "model.pte", tmp_path / "again.json", offsets, ommit_metadata=True)
    again = json.loads((tmp_path / "again.json").read_text())["traceEvents"]
    assert [event["name"] for event in again] == [event["name"] for event in events]
    assert not again[0]["args"]
    with pytest.raises(KeyError, match="no method 'decode'"):
        generate_memory_trace(manager, tmp_path / "no.json", method_name="decode")
