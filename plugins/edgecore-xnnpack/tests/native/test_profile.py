"""Traces show the operators inside a delegate, and where in the model they come from."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import edgecore
from edgecore import format as fmt


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.head = nn.Linear(8 * 16 * 16, 10)

    def forward(self, x: torch.Tensor) -> Any:
        x = torch.sigmoid(self.first(x))
        x = torch.relu(self.second(x)) + x
        return torch.softmax(self.head(x.flatten(1)), 1)


def traced(model: nn.Module, x: torch.Tensor, folder: Path, runs: int = 1) -> tuple[Path, fmt.MethodMeta]:
    """The trace of some runs, and what the file says about its method."""
    path = folder / "net.pte"
    edgecore.compile(model.eval(), (x,), backends=["xnnpack"]).save(path)
    loaded = edgecore.load(path, trace=True)
    untraced = edgecore.load(path)
    for _ in range(runs):
        assert torch.equal(loaded.forward(x), untraced.forward(x))
    loaded.write_trace(folder / "net.etdp")
    meta = fmt.get_meta(fmt.read_pte(path.read_bytes()))
    assert meta is not None
    return folder / "net.etdp", meta.methods[0]


def inside(trace: Path) -> list[Any]:
    """The events within delegates, as ExecuTorch's Inspector has them."""
    inspector = pytest.importorskip("executorch.devtools").Inspector(etdump_path=str(trace))
    return [event for block in inspector.event_blocks for event in block.events if event.is_delegated_op]


def origin(event: Any, meta: fmt.MethodMeta) -> tuple[str, list[str]]:
    """The event's name without its number, and the modules that its number stands for."""
    match = re.fullmatch(r"(.*) \[(\d+)\]", event.name)
    assert match
    (operation,) = [entry for entry in meta.delegates[0].operations if entry.id == int(match[2])]
    nodes = {entry.handle: entry for entry in meta.debug_handles}
    return match[1], [nodes[handle].module_path for handle in operation.handles]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_operator_of_every_run_has_a_name_and_an_origin(tmp_path: Path) -> None:
    trace, meta = traced(Net(), torch.randn(1, 3, 16, 16), tmp_path, runs=3)
    events = inside(trace)
    runs = Counter[str]()
    for event in events:
        runs[event.name] += len(event.perf_data.raw)
    assert set(runs.values()) == {3}
    found = dict(origin(event, meta) for event in events)
    assert any("first" in module for module in found["Conv2d"])
    assert any("second" in module for module in found["DepthwiseConv2d"])
    assert any("head" in module for module in found["FullyConnected"])
    assert {"Sigmoid", "Add", "Softmax"} <= set(found)
    (first,) = [event for event in events if event.name.startswith("Conv2d ")]
    assert json.loads(first.raw_delegate_debug_metadatas[0])["kernel"].startswith("Convolution (NHWC, F32)")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_operators_follow_one_another_within_their_call(tmp_path: Path) -> None:
    trace, _ = traced(Net(), torch.randn(1, 3, 16, 16), tmp_path)
    inspector = pytest.importorskip("executorch.devtools").Inspector(etdump_path=str(trace))
    runs = next(block for block in inspector.event_blocks if block.name == "Execute")
    (call,) = [event for event in runs.events if event.name == "DELEGATE_CALL"]
    inner = [event for event in runs.events if event.is_delegated_op]
    starts = [event.start_time[0] for event in inner]
    assert starts == sorted(starts)
    assert starts[0] >= call.start_time[0]
    assert sum(event.perf_data.raw[0] for event in inner) <= call.perf_data.raw[0]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_times_of_operators_are_not_rounded_to_microseconds(tmp_path: Path) -> None:
    trace, _ = traced(Net(), torch.randn(1, 3, 16, 16), tmp_path, runs=5)
    nanoseconds = [round(time * 1e6) for event in inside(trace) for time in event.perf_data.raw]
    assert any(time % 1000 for time in nanoseconds)


def test_without_a_trace_nothing_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "net.pte"
    edgecore.compile(Net().eval(), (torch.randn(1, 3, 16, 16),), backends=["xnnpack"]).save(path)
    model = edgecore.load(path)
    model.forward(np.ones((1, 3, 16, 16), np.float32))
    with pytest.raises(edgecore.errors.ExecutionError, match="without trace"):
        model.write_trace(tmp_path / "net.etdp")
