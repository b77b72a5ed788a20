"""Traces: origins of events, and times that add up to the run."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
import torch

import edgecore
from edgecore.devtools import Trace, chrome_trace, speedscope, summarize
from edgecore.format.etdump import ETDump, Event, ProfileEvent, RunData, write_etdump


def block(*rows: tuple[str, int, str, int, int], name: str = "Execute") -> RunData:
    """Rows of (name, instruction, id of a delegate's operation, start, end)."""
    return RunData(name, events=[Event(ProfileEvent(event or None, 0, instruction, -1, text or None, None, start, end))
                                 for event, instruction, text, start, end in rows])  # fmt: skip


EXECUTORCH = block(
    ("native_call_add.out", 0, "", 102, 110),
    ("OPERATOR_CALL", 0, "", 101, 112),
    ("", 1, "Fully Connected (NC, F32) GEMM #1", 121, 141),
    ("", 1, "Fully Connected (NC, F32) GEMM #2", 141, 141),
    ("", 1, "GELU (NC) #1", 141, 145),
    ("DELEGATE_CALL", 1, "", 120, 150),
    ("Method::execute", 0, "", 100, 160),
)
EDGECORE = block(
    ("Method::execute", -1, "", 100, 160),
    ("native_call_add", 0, "", 101, 112),
    ("DELEGATE_CALL", 1, "", 120, 150),
    ("prepare XnnpackBackend", 1, "", 120, 121),
    ("", 1, "FullyConnected [0]", 121, 141),
    ("", 1, "FullyConnected [1]", 141, 141),
    ("", 1, "Gelu [2]", 141, 145),
)


def read(*blocks: RunData) -> Trace:
    return Trace.read(write_etdump(ETDump(0, list(blocks))))


@pytest.mark.parametrize(("run", "add"), [(EXECUTORCH, 8), (EDGECORE, 11)])
def test_times_of_both_runtimes_add_up_to_the_run(run: RunData, add: int) -> None:
    trace = read(run, block(("Program::load_method", 0, "", 1, 9), name="Default"), run)
    assert len(trace.runs) == 2
    assert [other.name for other in trace.others] == ["Default"]
    summary = summarize(trace, "kernel")
    assert summary.mean == 60 == sum(row.mean for row in summary.rows)
    times = {row.label: row.mean for row in summary.rows}
    assert [times[name] for name in times if name.startswith("add")] == [add]
    assert sum(row.mean for row in summary.rows if not row.rest) == add + 24
    assert times["(delegate, between operations)"] == 30 - 24 - (run is EDGECORE)


def test_traces_name_methods_repetitions_and_threads() -> None:
    run = block(
        ("Method::execute", -1, "", 100, 160),
        ("native_call_relu.out", 0, "", 101, 112),
        ("thread 1 of instruction 0", -1, "", 103, 111),
        ("native_call_relu.out (2)", 0, "", 112, 120),
        ("DELEGATE_CALL", 1, "", 120, 150),
        ("", 1, "Conv2d [3]", 121, 141),
        ("", 1, "Conv2d [3] (2)", 141, 150),
        name="Execute prefill",
    )
    summary = summarize(read(run), "operator")
    times = {row.label: (row.mean, row.calls) for row in summary.rows if not row.rest}
    assert times == {"(relu.out)": (19, 2), "(Conv2d)": (29, 2)}
    assert sum(row.mean for row in summary.rows) == 60
    threads = [event["tid"] for event in chrome_trace(read(run))["traceEvents"] if event["name"].startswith("thread 1")]
    assert threads == [3]


def test_without_symbols_the_name_of_a_block_tells_the_method() -> None:
    trace = read(replace(EDGECORE, name="Execute prefill"), replace(EDGECORE, name="Execute decode"), EDGECORE)
    assert [run.method for run in trace.runs] == ["prefill", "decode", ""]
    assert [run.method for run in trace.select("decode").runs] == ["decode", ""]


def test_a_trace_of_another_program_gets_no_origins(tmp_path: Path) -> None:
    edgecore.compile(Twice().eval(), (torch.ones(2),), backends=[]).save(tmp_path / "twice.pte")
    trace = Trace.read(write_etdump(ETDump(0, [EDGECORE])), program=tmp_path / "twice.pte")
    assert trace.runs[0].method == ""
    assert not any(event.origins for event in trace.runs[0].events)


def test_an_operation_that_the_program_does_not_know_leaves_the_others_their_origins(tmp_path: Path) -> None:
    pytest.importorskip("edgecore_xnnpack")
    edgecore.compile(Network().eval(), (torch.ones(2, 64),), backends=["xnnpack"]).save(tmp_path / "model.pte")
    run = block(
        ("Method::execute", -1, "", 100, 160), ("DELEGATE_CALL", 0, "", 110, 150), ("", 0, "Copy [999]", 110, 120)
    )
    trace = Trace.read(write_etdump(ETDump(0, [run])), program=tmp_path / "model.pte")
    assert trace.runs[0].method == "forward"
    assert [bool(event.origins) for event in trace.runs[0].events] == [False, True, False]


def test_a_record_need_not_be_saved_and_counts_rather_than_a_program(tmp_path: Path) -> None:
    exported = torch.export.export(Twice(), (torch.ones(2),))
    manager = edgecore.to_edge(exported, generate_etrecord=True).to_executorch()
    run = block(("Method::execute", -1, "", 100, 160), ("native_call_sigmoid.out", 0, "", 101, 112))
    trace = Trace.read(
        write_etdump(ETDump(0, [run])), program=tmp_path / "missing.pte", etrecord=manager.get_etrecord()
    )
    assert [origin.operator for origin in trace.runs[0].events[1].origins] == ["aten.sigmoid.default"]


def test_operations_on_another_clock_are_in_no_row() -> None:
    trace = read(block(("Method::execute", -1, "", 100, 160), ("DELEGATE_CALL", 0, "", 110, 150),
                       ("", 0, "conv [3]", 7, 9)))  # fmt: skip
    summary = summarize(trace)
    assert summary.unplaced == 1
    assert sum(row.mean for row in summary.rows) == 60
    assert [event.name for event in trace.runs[0].events if not event.placed] == ["conv"]


def test_a_disturbed_run_changes_nothing() -> None:
    runs = [block(("Method::execute", -1, "", 0, 100 + i), ("native_call_add", 0, "", 0, 90)) for i in range(8)]
    runs[3] = block(("Method::execute", -1, "", 0, 90_000), ("native_call_add", 0, "", 0, 80_000))
    assert summarize(read(*runs)).mean == 104.25  # the mean of 102, 104, 105, 106


def test_a_group_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match="by must be one of operator, module, backend, line, kernel; got 'time'"):
        summarize(read(EDGECORE), "time")


def test_exports_nest_as_the_runs_do() -> None:
    trace = read(EXECUTORCH, EDGECORE)
    for event in chrome_trace(trace)["traceEvents"]:
        assert event["ph"] == "M" or (event["ts"] >= 0 and event["dur"] >= 0)
    shown = speedscope(trace)
    assert len(shown["profiles"]) == 2
    for profile in shown["profiles"]:
        open_frames, now = [], 0
        for event in profile["events"]:
            assert now <= event["at"] <= profile["endValue"]
            now = event["at"]
            if event["type"] == "O":
                open_frames.append(event["frame"])
            else:
                assert open_frames.pop() == event["frame"]
        assert not open_frames


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.block = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(torch.relu(self.first(x))) + x


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * 2


def traced(tmp_path: Path, backends: list[str], runs: int = 5) -> Trace:
    torch.manual_seed(0)
    path = tmp_path / "model.pte"
    x = torch.randn(256, 64)
    methods = {"forward": torch.export.export(Network().eval(), (x,)), "twice": torch.export.export(Twice(), (x,))}
    edgecore.compile(methods, backends=backends).save(path)
    program = edgecore.load(path, trace=True)
    for _ in range(runs):
        program.forward(x.numpy())
        program.twice(numpy.ones((256, 64), numpy.float32))
    program.write_trace(tmp_path / "runs.etdp")
    return Trace.read(tmp_path / "runs.etdp", program=path)


@pytest.mark.parametrize("backends", [[], ["xnnpack"]])
def test_events_are_named_by_operators_modules_and_lines(tmp_path: Path, backends: list[str]) -> None:
    if backends:
        pytest.importorskip("edgecore_xnnpack")
    trace = traced(tmp_path, backends)
    assert {run.method for run in trace.runs} == {"forward", "twice"}
    chosen = trace.select("forward", skip=1)
    assert len(chosen.runs) == 4
    labels = {by: {row.label for row in summarize(chosen, by).rows} for by in ("operator", "module", "line", "backend")}
    assert {"gelu", "add"} < labels["operator"]
    assert {"first", "block.0", "block.1"} < labels["module"]
    assert any("test_trace.py" in label for label in labels["line"])
    assert ("XnnpackBackend" if backends else "kernels") in labels["backend"]
    for by in labels:
        summary = summarize(chosen, by)
        assert sum(row.mean for row in summary.rows) == pytest.approx(summary.mean)
    chosen.save(tmp_path / "chosen.etdp")
    again = Trace.read(tmp_path / "chosen.etdp", program=tmp_path / "model.pte")
    assert summarize(again) == summarize(chosen)


COMPILING = {"CompareReport", "CompareRow", "Culprit", "ETRecord", "Step", "Suggestion", "compare", "generate_etrecord",
             "parse_etrecord", "suggest"}  # fmt: skip
"""Names that compile models, or hold graphs of torch."""


def test_all_names_but_those_that_compile_need_neither_torch_nor_numpy_nor_pandas() -> None:
    code = (
        "import sys, edgecore.devtools as d\n"
        f"names = set(d.__all__) - {COMPILING}\n"
        f"assert len(names) == len(d.__all__) - {len(COMPILING)}\n"
        "assert all(getattr(d, name) is not None for name in names)\n"
        "print([name for name in ('torch', 'numpy', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
