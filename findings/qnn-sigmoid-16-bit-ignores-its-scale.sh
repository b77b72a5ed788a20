#!/bin/sh
# onnxruntime-qnn ignores the scale of a 16-bit sigmoid, tanh or hard sigmoid, and the limits that come with it.
#
# Expected: a QuantizeLinear limits its input to what its integers can stand for. Quantizers rely on it: they drop a
# clamp to [0, 0.5] behind a sigmoid if the integers from 0 to 65535 stand for 0 to 0.5.
# What happens (onnxruntime-qnn 2.7.0, HTP emulator of the wheel, SM8650): for uint16 the NPU's operator gets a scale
# that is fixed for it (1/65536 for sigmoid). Nothing limits its result to the model's scale, neither at the output of
# the graph nor in the multiplication that follows: sigmoid(2.5) stays 0.92, and tanh(-2.5), which the integers cannot
# stand for, stays -0.99. With uint8, and with ONNX Runtime's CPU provider, both are limited.
# What to do: keep a Clip between two QuantizeLinear and DequantizeLinear pairs behind these operators; it is obeyed.
# edgecore: leaves no clamp out behind these operators (`plugins/edgecore-qnn/tests/test_networks.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" onnxruntime==1.31.1 onnxruntime-qnn==2.7.0 onnx==1.23.2 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import numpy as np
import onnxruntime as ort
from onnx import helper
from qnn_provider import run

X = np.array([[-2.5, -0.4, 0.4, 2.5]], np.float32)


def pair(source, result, scale, zero):
    quantize = helper.make_node("QuantizeLinear", [source, scale, zero], [result + "_q"])
    return [quantize, helper.make_node("DequantizeLinear", [result + "_q", scale, zero], [result])]


def results(operator, dtype, clip=False):
    """Return what both providers give: the operator, quantized to [0, 0.5], times one."""
    top = np.iinfo(dtype).max
    constants = {
        "s": np.float32(6 / top), "z": dtype(top // 2 + 1), "h": np.float32(0.5 / top), "zero": dtype(0),
        "one": np.ones((1, 4), np.float32), "low": np.float32(0), "high": np.float32(0.5),
    }  # fmt: skip
    nodes = pair("x", "a", "s", "z") + [helper.make_node(operator, ["a"], ["b"])]
    if clip:
        nodes += pair("b", "c", "s", "z") + [helper.make_node("Clip", ["c", "low", "high"], ["d"])]
    nodes += pair("d" if clip else "b", "e", "h", "zero") + pair("one", "f", "s", "z")
    nodes += [helper.make_node("Mul", ["e", "f"], ["g"]), *pair("g", "y", "s", "z")]
    return [result[0] for result in run(nodes, {"x": X}, constants)]


print("onnxruntime", ort.__version__, "x:", X[0])
for operator in ("Sigmoid", "Tanh", "HardSigmoid"):
    for dtype, clip in ((np.uint8, False), (np.uint16, False), (np.uint16, True)):
        cpu, npu = results(operator, dtype, clip)
        print(f"{operator} {dtype.__name__}{' with Clip' if clip else ''}: CPU {cpu.round(3)}, QNN {npu.round(3)}")
        assert cpu.min() >= 0 and cpu.max() < 0.52, "the CPU provider does not limit the result"
        assert (npu.max() > 0.9) == (dtype is np.uint16 and not clip), "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
