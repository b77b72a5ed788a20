"""Compare each layer of a quantized ONNX model on the emulator with ONNX Runtime's CPU provider."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx.utils import Extractor

EMULATE = Path(__file__).with_name("emulate.py")
Arrays = dict[str, "np.ndarray[Any, Any]"]


def emulate(model: onnx.ModelProto, inputs: Arrays, soc: str) -> Arrays:
    """Run a model on the emulator, in a process of its own; return its outputs by name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        np.savez(folder / "inputs.npz", **inputs)
        subprocess.run([sys.executable, EMULATE, folder, soc], check=True, timeout=300, cwd=folder, capture_output=True)
        with np.load(folder / "outputs.npz") as outputs:
            return dict(outputs)


def layer_steps(model: onnx.ModelProto, inputs: Arrays, soc: str) -> dict[str, int]:
    """Return the largest difference of each layer of a quantized model from the CPU provider, in steps of its integers.

    A layer is what lies between integers: it ends with a QuantizeLinear. The CPU provider gets the emulator's integers
    as inputs of each layer, so that differences of earlier layers do not count.
    """
    inferred = onnx.shape_inference.infer_shapes(model)
    producers = {name: node for node in inferred.graph.node for name in node.output}
    ends = [node.output[0] for node in inferred.graph.node if node.op_type == "QuantizeLinear"]
    known = {info.name: info for info in (*inferred.graph.value_info, *inferred.graph.output, *inferred.graph.input)}
    opened = onnx.ModelProto()
    opened.CopyFrom(inferred)
    del opened.graph.output[:]
    opened.graph.output.extend(known[name] for name in ends)
    values = {**inputs, **emulate(opened, inputs, soc)}
    extractor = Extractor(inferred)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    steps = {}
    for end in ends:
        starts = _starts(end, producers, values)
        layer = extractor.extract_model(starts, [end])
        session = ort.InferenceSession(layer.SerializeToString(), options, providers=["CPUExecutionProvider"])
        (expected,) = session.run(None, {name: values[name] for name in starts})
        steps[end] = int(np.abs(expected.astype(np.int64) - values[end].astype(np.int64)).max())
    return steps


def _starts(end: str, producers: dict[str, onnx.NodeProto], values: Arrays) -> list[str]:
    """List the values that a layer reads: inputs of the model and results of earlier layers."""
    found: dict[str, None] = {}
    waiting = list(producers[end].input)
    while waiting:
        name = waiting.pop()
        if name in values:
            found[name] = None
        elif name in producers:
            waiting += producers[name].input
    return list(found)
