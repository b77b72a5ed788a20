"""Values in traces: `load(..., debug=...)`, `write_trace(path, values=...)`, and the Inspector that reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import edgecore
from edgecore.devtools import Inspector
from edgecore.devtools.profiling.profiler import profile_of_trace
from edgecore.errors import EdgecoreError, FormatError
from edgecore.format.etdump import read_etdump
from edgecore.native_program import PROGRAM

X = torch.linspace(-1, 1, 16).reshape(2, 8)


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.topk(torch.relu(self.first(x)), 3)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("debug") / "model.pte"
    edgecore.compile(Network().eval(), (X,), backends=[]).save(path)
    return path


def traced(path: Path, inputs: list[torch.Tensor], tmp_path: Path, **options: Any) -> Inspector:
    program = edgecore.load(path, **options)
    for x in inputs:
        program.forward(x)
    program.write_trace(tmp_path / "runs.etdp", values=tmp_path / "values.bin")
    return Inspector(str(tmp_path / "runs.etdp"), debug_buffer_path=str(tmp_path / "values.bin"))


def runs(inspector: Inspector) -> list[Any]:
    return [block for block in inspector.event_blocks if block.name == "Execute"]


def test_each_operator_has_its_value(compiled: Path, tmp_path: Path) -> None:
    (block,) = runs(traced(compiled, [X], tmp_path, debug="values"))
    values = {event.name: event.debug_data for event in block.events}
    model = Network()
    hidden = model.first(X)
    torch.testing.assert_close(values["native_call_linear.out"], [hidden])
    torch.testing.assert_close(values["native_call_relu.out"], [hidden.relu()])
    torch.testing.assert_close(values["native_call_topk.values"], [list(model(X))])
    torch.testing.assert_close(block.run_output, list(model(X)))


def test_the_level_of_outputs_records_no_others(compiled: Path, tmp_path: Path) -> None:
    (block,) = runs(traced(compiled, [X], tmp_path, debug="outputs", trace="calls"))
    assert [(event.name, event.debug_data) for event in block.events] == [("Method::execute", [])]
    torch.testing.assert_close(block.run_output, list(Network()(X)))


def test_runs_with_equal_values_share_them_and_others_are_blocks_of_their_own(compiled: Path, tmp_path: Path) -> None:
    inspector = traced(compiled, [X, X, X + 1, X], tmp_path, debug="values")
    first, second = runs(inspector)
    assert (first.bundled_input_index, len(first.events[0].perf_data.raw)) == (0, 3)
    assert (second.bundled_input_index, len(second.events[0].perf_data.raw)) == (1, 1)
    torch.testing.assert_close(first.run_output, list(Network()(X)))
    torch.testing.assert_close(second.run_output, list(Network()(X + 1)))
    both = (tmp_path / "values.bin").stat().st_size
    traced(compiled, [X], tmp_path, debug="values")
    assert both <= 2 * (tmp_path / "values.bin").stat().st_size + 64


def test_a_full_buffer_ends_the_recording_and_says_so(compiled: Path, tmp_path: Path) -> None:
    inspector = traced(compiled, [X, X + 1], tmp_path, debug="values", debug_limit=1000)
    names = [event.name for block in inspector.event_blocks for event in block.events]
    assert [name for name in names if "values were not recorded" in name] != []
    assert len(runs(inspector)) == 2
    traced(compiled, [X], tmp_path, debug="values", debug_limit=0)
    assert (tmp_path / "values.bin").read_bytes() == b""


def test_values_belong_to_the_runs_that_the_trace_records(compiled: Path, tmp_path: Path) -> None:
    program = edgecore.load(compiled, debug="outputs")
    program.forward(X)
    program.trace.clear()
    program.trace.stop()
    program.forward(X + 1)
    program.trace.start()
    program.forward(X + 2)
    program.write_trace(tmp_path / "runs.etdp", values=tmp_path / "values.bin")
    inspector = Inspector(str(tmp_path / "runs.etdp"), debug_buffer_path=str(tmp_path / "values.bin"))
    (block,) = runs(inspector)
    torch.testing.assert_close(block.run_output, list(Network()(X + 2)))


def test_dropped_runs_take_their_values_along(compiled: Path, tmp_path: Path) -> None:
    inputs = [X + number for number in range(400)]
    inspector = traced(compiled, inputs, tmp_path, debug="outputs", trace_limit=0)
    last = runs(inspector)[-1]
    torch.testing.assert_close(last.run_output[0], Network()(inputs[-1])[0])  # equal values may have any index
    assert len(runs(inspector)) < 400


def test_bfloat16_becomes_float(tmp_path: Path) -> None:
    class Half(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    x = X.to(torch.bfloat16)
    edgecore.compile(Half().eval(), (x,), backends=[]).save(tmp_path / "half.pte")
    (block,) = runs(traced(tmp_path / "half.pte", [x], tmp_path, debug="values"))
    torch.testing.assert_close(block.run_output, [(x + x).float()])


def test_operations_of_a_delegate_have_values_in_the_dims_of_the_graph(tmp_path: Path) -> None:
    pytest.importorskip("edgecore_xnnpack")
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Sigmoid(), torch.nn.Conv2d(4, 2, 1)).eval()
    x = torch.randn(1, 3, 5, 6)
    edgecore.compile(model, (x,), backends=["xnnpack"]).save(tmp_path / "model.pte")
    inspector = traced(tmp_path / "model.pte", [x], tmp_path, debug="values")
    values = {event.name.split()[0]: event.debug_data for block in runs(inspector) for event in block.events}
    with torch.no_grad():
        hidden = model[1](model[0](x))
        torch.testing.assert_close(values["Sigmoid"], [hidden], rtol=0, atol=1e-5)
        torch.testing.assert_close(values["DELEGATE_CALL"], [model(x)], rtol=0, atol=1e-5)


def test_the_command_writes_values_too(compiled: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X.numpy())
    command = [PROGRAM, compiled, "--input", tmp_path / "x.npy", "--trace", tmp_path / "runs.etdp", "--debug"]
    buffer = ["--debug-buffer", tmp_path / "values.bin"]
    subprocess.run([*map(str, [*command, "outputs", *buffer])], check=True, capture_output=True)
    inspector = Inspector(str(tmp_path / "runs.etdp"), debug_buffer_path=str(tmp_path / "values.bin"))
    torch.testing.assert_close(runs(inspector)[0].run_output, list(Network()(X)))
    assert subprocess.run([*map(str, [*command, "all", *buffer])], capture_output=True).returncode != 0
    assert subprocess.run([*map(str, [*command, "values"])], capture_output=True).returncode != 0


def test_a_profile_is_made_of_a_trace_that_was_recorded_elsewhere(compiled: Path, tmp_path: Path) -> None:
    traced(compiled, [X, X], tmp_path, trace=True)
    assert (tmp_path / "values.bin").read_bytes() == b""
    shown = profile_of_trace(compiled, tmp_path / "runs.etdp")
    assert "median of 2 runs" in shown.table()
    line = shown.table().splitlines()[1]
    assert line.startswith("load ") and ", first run of the trace " in line and "threads" not in line
    assert {"linear", "relu", "topk"} <= {row.label for row in shown.summary().rows}
    with pytest.raises(EdgecoreError, match="has no run of the method backward"):
        profile_of_trace(compiled, tmp_path / "runs.etdp", "backward")
    edgecore.compile(torch.nn.Sigmoid().eval(), (X,), backends=[]).save(tmp_path / "other.pte")
    with pytest.raises(FormatError, match=r"runs.etdp is a trace of another program than .*other.pte"):
        profile_of_trace(tmp_path / "other.pte", tmp_path / "runs.etdp")


def test_wrong_arguments_are_errors(compiled: Path) -> None:
    with pytest.raises(ValueError, match="debug is outputs or values; got 'all'"):
        edgecore.load(compiled, debug="all")
    with pytest.raises(ValueError, match="debug_limit must be at least 0"):
        edgecore.load(compiled, debug="values", debug_limit=-1)


def test_reading_the_trace_needs_no_torch(compiled: Path, tmp_path: Path) -> None:
    traced(compiled, [X], tmp_path, debug="values")
    dump = read_etdump((tmp_path / "runs.etdp").read_bytes())
    assert sum(event.debug_event is not None for run in dump.run_data for event in run.events) == 5
    code = f"import sys; from edgecore.devtools import Inspector; Inspector({str(tmp_path / 'runs.etdp')!r}); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
