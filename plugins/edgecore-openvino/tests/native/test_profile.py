"""Profiles show the operators inside of OpenVINO, with their times and their graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import edgecore
from edgecore.devtools import graph_of, profile
from edgecore.errors import FormatError
from edgecore_openvino.blob import graph as model_graph


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(self.second(torch.relu(self.first(x))), 1)
        return self.last(y.mean((2, 3)))


def saved(path: Path, payload: str) -> edgecore.CompiledProgram:
    torch.manual_seed(0)
    backend = edgecore.Backend("openvino", payload=payload, precision="f32")
    program = edgecore.compile(Net().eval(), (torch.randn(1, 3, 64, 64),), backends=[backend])
    program.save(path)
    return program


@pytest.mark.parametrize("payload", ["portable", "blob"])
def test_operators_have_times_that_fit_into_the_run_and_origins(tmp_path: Path, payload: str) -> None:
    saved(tmp_path / "net.pte", payload)
    measured = profile(tmp_path / "net.pte", np.zeros((1, 3, 64, 64), np.float32), runs=4, warmup=2, threads=1)
    for run in measured.trace.runs:
        inside = [event for event in run.events if event.kind == "operation"]
        modules = {origin.module for event in inside for origin in event.origins}
        assert {"first", "second", "last"} <= modules
        assert {"Convolution", "Softmax"} <= {event.name for event in inside}
        (call,) = (event for event in run.events if event.kind == "delegate")
        assert all(event.placed and event.parent is call for event in inside)
        assert call.own >= 0 and sum(event.duration for event in inside) > 0


class Chain(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.relu(x * y) - y) * x


@pytest.mark.parametrize(("payload", "streams"), [("portable", 1), ("portable", 2), ("blob", 2)])
def test_openvino_fuses_no_operators_for_streams_of_one_thread(tmp_path: Path, payload: str, streams: int) -> None:
    # OpenVINO 2026.4.1 crashes while it fuses some perceptrons for one thread.
    values = torch.randn(64, 512), torch.randn(64, 512)
    backend = edgecore.Backend("openvino", payload=payload, precision="f32", streams=streams)
    edgecore.compile(Chain().eval(), values, backends=[backend]).save(tmp_path / "net.pte")
    measured = profile(tmp_path / "net.pte", *(value.numpy() for value in values), runs=1, threads=streams)
    names = {event.name for event in measured.trace.runs[0].events if event.kind == "operation"}
    assert names and "Subgraph" not in names


@pytest.mark.parametrize("payload", ["portable", "blob"])
def test_the_graph_has_the_operators_with_modules_and_shapes(tmp_path: Path, payload: str) -> None:
    program = saved(tmp_path / "net.pte", payload)
    (method,) = graph_of(program.pte, blobs=True).methods
    nodes = {node.operator + node.module: node for node in method.nodes if node.kind == "operation"}
    convolutions = [node for node in method.nodes if node.kind == "operation" and node.name.startswith("conv")]
    assert {node.module for node in convolutions} == {"first", "second"} and len(nodes) >= 5
    assert any(node.outputs == ["fp32 [1, 8, 62, 62]"] for node in convolutions)
    ends = [node.id for node in method.nodes if node.kind in ("input", "output")]
    assert {end for edge in method.edges for end in (edge.source, edge.target)} >= set(ends)


@pytest.mark.parametrize(
    "model",
    [
        b"<net><layers><layer",
        b"<!DOCTYPE net [<!ENTITY a 'b'>]><net/>",
        "\ufeff<!DOCTYPE net [<!ENTITY a 'b'>]><net/>".encode("utf-16-le"),
        b"<net><layers><layer id='0' name='output_0' type='Result'/></layers></net>",
        b"<net><layers><layer id='0' type='Relu'/></layers></net>",
        b"<net><layers><layer id='0' name='Relu_1' type='Relu'><output><port id='0' precision='FP32'><dim>x</dim></port>"
        b"</output></layer></layers></net>",
    ],
)
def test_a_damaged_model_is_one_clear_error(model: bytes) -> None:
    with pytest.raises(FormatError, match="the blob is damaged: its model is no XML of OpenVINO"):
        model_graph.graph_of(model)
