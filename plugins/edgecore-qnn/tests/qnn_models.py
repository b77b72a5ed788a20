"""Models and helpers of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

import edgecore
from edgecore.format import read_pte
from edgecore.numerics.metrics import measure
from edgecore_qnn import lowering
from edgecore_qnn.onnx_graph import OnnxGraph

Inputs = tuple[torch.Tensor, ...]


class Small(nn.Module):
    """A convolution, a clamp, a mean and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
        )

    def forward(self, x: torch.Tensor) -> Any:
        return self.layers(x)


def image() -> Inputs:
    """An input of `Small`."""
    return (torch.randn(1, 3, 12, 12),)


def compile_model(model: nn.Module, example: Inputs, quantize: Any = None, **options: Any) -> edgecore.CompiledProgram:
    """Compile a model, which must be delegated; a recipe is calibrated with the example."""
    return edgecore.compile(
        model.eval(),
        example,
        backends=[edgecore.Backend("qnn", **options)],
        quantize=quantize,
        calibration=[example] if quantize else None,
    )


def blobs(program: edgecore.CompiledProgram) -> Sequence[bytes]:
    """Return the blobs of the delegates of a program."""
    return [bytes(blob) for blob in read_pte(bytes(program.buffer)).delegate_blobs]


def run(program: edgecore.CompiledProgram, *inputs: torch.Tensor) -> torch.Tensor:
    """Run a program with one output on the emulator."""
    return torch.as_tensor(edgecore.load(bytes(program.buffer)).forward(*inputs))


def onnx_graphs(monkeypatch: Any) -> list[OnnxGraph]:
    """Return a list to which each ONNX graph that is compiled from now on is added."""
    graphs: list[OnnxGraph] = []
    original = lowering.lower

    def recorded(partition: Any) -> OnnxGraph:
        graphs.append(original(partition))
        return graphs[-1]

    monkeypatch.setattr(lowering, "lower", recorded)
    return graphs


def onnx_result(graph: OnnxGraph, *inputs: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return the first result of an ONNX graph, as ONNX Runtime computes it on the CPU."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(graph.to_bytes(), options, providers=["CPUExecutionProvider"])
    feeds = {f"input_{index}": value.numpy() for index, value in enumerate(inputs)}
    result: np.ndarray[Any, Any] = session.run(None, feeds)[0]
    return result


def decibels(expected: Any, found: Any) -> float:
    """Return the SQNR of a result in dB."""
    return measure(torch.as_tensor(expected), torch.as_tensor(found)).sqnr


def op_types(graph: OnnxGraph) -> list[str]:
    """List the operators of an ONNX graph."""
    return [node.op_type for node in graph.model.graph.node]
