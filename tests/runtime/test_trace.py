"""Traces: ETDump files that ExecuTorch's own developer tools read."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch

import edgecore
from edgecore.errors import ExecutionError


def compiled(tmp_path: Path, backends: list[str]) -> Path:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Sigmoid()).eval()
    path = tmp_path / "model.pte"
    edgecore.compile(model, (torch.zeros(2, 4),), backends=backends).save(path)
    return path


def events(path: Path) -> list[tuple[str, str, int]]:
    """Block, event and number of runs, as the peer's Inspector has them."""
    inspector = pytest.importorskip("executorch.devtools").Inspector(etdump_path=str(path))
    return [
        (block.name, event.name, len(event.perf_data.raw)) for block in inspector.event_blocks for event in block.events
    ]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_inspector_reads_every_instruction_of_every_run(tmp_path: Path) -> None:
    model = edgecore.load(compiled(tmp_path, []), trace=True)
    for _ in range(3):
        model.forward(numpy.ones((2, 4), numpy.float32))
    model.write_trace(tmp_path / "runs.etdp")
    found = events(tmp_path / "runs.etdp")
    assert found[0][1] == "Method::execute"
    assert {name for _, name, _ in found} >= {"native_call_linear", "native_call_sigmoid"}
    assert all(block == "Execute" and runs == 3 for block, _, runs in found)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_calls_of_delegates_are_events_of_a_trace(tmp_path: Path) -> None:
    pytest.importorskip("edgecore_xnnpack")
    model = edgecore.load(compiled(tmp_path, ["xnnpack"]), trace=True)
    model.forward(numpy.ones((2, 4), numpy.float32))
    model.write_trace(tmp_path / "run.etdp")
    assert ("Execute", "DELEGATE_CALL", 1) in events(tmp_path / "run.etdp")


def test_a_program_loaded_without_trace_has_none_to_write(tmp_path: Path) -> None:
    model = edgecore.load(compiled(tmp_path, []))
    with pytest.raises(ExecutionError, match="without trace"):
        model.write_trace(tmp_path / "run.etdp")


def test_a_path_of_a_trace_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    model = edgecore.load(compiled(tmp_path, []), trace=True)
    with pytest.raises(ExecutionError, match="no_folder.* cannot be written: No such file"):
        model.write_trace(tmp_path / "no_folder" / "run.etdp")
