"""Traces: ETDump files that ExecuTorch's own developer tools read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

import edgecore
from edgecore.errors import ExecutionError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

X = numpy.ones((2, 4), numpy.float32)
RUN = {"Method::execute", "native_call_linear.out", "native_call_sigmoid.out"}


class Net(torch.nn.Sequential):
    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(torch.nn.Linear(4, 3), torch.nn.Sigmoid())


def compiled(tmp_path: Path, backends: list[str]) -> Path:
    path = tmp_path / "model.pte"
    edgecore.compile(Net().eval(), (torch.zeros(2, 4),), backends=backends).save(path)
    return path


def blocks(model: Any, tmp_path: Path) -> list[Any]:
    """The blocks of the model's trace, as the peer's Inspector has them."""
    model.trace.write(tmp_path / "runs.etdp")
    devtools = pytest.importorskip("executorch.devtools")
    return list(devtools.Inspector(etdump_path=str(tmp_path / "runs.etdp")).event_blocks)


def counts(block: Any) -> dict[str, int]:
    """Number of runs of each event."""
    return {event.name: len(event.perf_data.raw) for event in block.events}


def test_all_runs_are_one_block_and_loading_is_another(tmp_path: Path) -> None:
    model = edgecore.load(compiled(tmp_path, []), trace=True)
    for _ in range(3):
        model.forward(X)
    loading, runs = blocks(model, tmp_path)
    assert (loading.name, counts(loading)) == ("Default", {"Program::load_method": 1})
    assert (runs.name, counts(runs)) == ("Execute", dict.fromkeys(RUN, 3))


def test_the_first_run_of_a_delegate_is_in_the_block_of_the_others(tmp_path: Path) -> None:
    pytest.importorskip("edgecore_xnnpack")
    model = edgecore.load(compiled(tmp_path, ["xnnpack"]), trace=True)
    for _ in range(3):
        model.forward(X)
    loading, runs = blocks(model, tmp_path)
    assert "prepare XnnpackBackend" in counts(loading)
    assert counts(runs)["DELEGATE_CALL"] == 3
    assert set(counts(runs).values()) == {3}


def test_operations_of_delegates_are_named_by_kind_and_number(tmp_path: Path) -> None:
    pytest.importorskip("edgecore_xnnpack")
    model = edgecore.load(compiled(tmp_path, ["xnnpack"]), trace=True)
    model.forward(X)
    runs = blocks(model, tmp_path)[-1]
    inner = {event.name: event for event in runs.events if event.is_delegated_op}
    assert set(inner) == {"FullyConnected [0]", "Sigmoid [1]"}
    (metadata,) = inner["FullyConnected [0]"].raw_delegate_debug_metadatas
    assert json.loads(metadata)["kernel"].startswith("Fully Connected")


def test_the_blocks_of_several_methods_have_their_names(tmp_path: Path) -> None:
    exported = torch.export.export(Net().eval(), (torch.zeros(2, 4),))
    path = tmp_path / "model.pte"
    edgecore.compile({"first": exported, "second": exported}, backends=[]).save(path)
    model = edgecore.load(path, trace=True)
    for name, runs in (("first", 2), ("second", 3)):
        for _ in range(runs):
            model[name](X)
    found = {block.name: counts(block) for block in blocks(model, tmp_path)}
    assert found["Execute first"] == dict.fromkeys(RUN, 2)
    assert found["Execute second"] == dict.fromkeys(RUN, 3)


def test_a_trace_starts_and_stops_on_a_loaded_model(tmp_path: Path) -> None:
    model = edgecore.load(compiled(tmp_path, []))
    model.forward(X)
    assert (model.trace.level, model.trace.events) == (None, 0)
    model.trace.start()
    assert model.trace.level == "operators"
    model.forward(X)
    model.forward(X)
    model.trace.stop()
    model.forward(X)
    assert repr(model.trace) == "<edgecore.Trace stopped, 6 events>"
    (runs,) = blocks(model, tmp_path)
    assert counts(runs) == dict.fromkeys(RUN, 2)
    model.trace.clear()
    assert model.trace.events == 0
    model.trace.start("calls")
    model.forward(X)
    assert counts(blocks(model, tmp_path)[0]) == {"Method::execute": 1}


def test_the_level_of_calls_has_no_operations_of_delegates(tmp_path: Path) -> None:
    pytest.importorskip("edgecore_xnnpack")
    model = edgecore.load(compiled(tmp_path, ["xnnpack"]), trace="calls")
    model.forward(X)
    assert [counts(block) for block in blocks(model, tmp_path)] == [{"Program::load_method": 1}, {"Method::execute": 1}]


def test_the_level_of_threads_has_the_times_of_each_thread(tmp_path: Path) -> None:
    path = tmp_path / "large.pte"
    edgecore.compile(torch.nn.Sigmoid().eval(), (torch.zeros(512, 512),), backends=[]).save(path)
    model = edgecore.load(path, trace="threads", threads=2)
    model.forward(numpy.ones((512, 512), numpy.float32))
    assert "thread 0 of instruction 0" in counts(blocks(model, tmp_path)[-1])


def test_past_the_limit_the_oldest_runs_are_dropped(tmp_path: Path) -> None:
    model = edgecore.load(compiled(tmp_path, []), trace=True, trace_limit=32 * 1024)
    for _ in range(1000):
        model.forward(X)
    assert model.trace.bytes <= 33 * 1024
    assert model.trace.dropped == 3000 - 1024
    loading, runs = blocks(model, tmp_path)
    assert "1977 events were dropped" in counts(loading)
    assert counts(runs) == dict.fromkeys(RUN, 1024 // 3)


def test_a_limit_that_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="trace_limit must be at most 536870912 bytes"):
        edgecore.load(compiled(tmp_path, []), trace=True, trace_limit=1 << 30)
    with pytest.raises(ValueError, match="trace_limit must be at least 0; got -1"):
        edgecore.load(compiled(tmp_path, []), trace=True, trace_limit=-1)


def test_an_unknown_level_is_named(tmp_path: Path) -> None:
    path = compiled(tmp_path, [])
    with pytest.raises(ValueError, match="calls, operators or threads; got 'all'"):
        edgecore.load(path, trace="all")
    with pytest.raises(ValueError, match="got 'all'"):
        edgecore.load(path).trace.start("all")


def test_a_session_is_traced_as_its_program(tmp_path: Path) -> None:
    session = edgecore.load(compiled(tmp_path, []), trace="calls").new_session()
    session.forward(X)
    assert counts(blocks(session, tmp_path)[-1]) == {"Method::execute": 1}


def test_a_program_that_was_never_traced_has_no_trace_to_write(tmp_path: Path) -> None:
    model = edgecore.load(compiled(tmp_path, []))
    with pytest.raises(ExecutionError, match="without trace"):
        model.write_trace(tmp_path / "run.etdp")


def test_a_path_of_a_trace_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    model = edgecore.load(compiled(tmp_path, []), trace=True)
    with pytest.raises(ExecutionError, match="no_folder.* cannot be written: No such file"):
        model.write_trace(tmp_path / "no_folder" / "run.etdp")
