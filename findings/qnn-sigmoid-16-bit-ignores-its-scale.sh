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
# edgecore: leaves no clamp out behind these operators (`plugins/edgecore-qnn/tests/test_qnn_networks.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" onnxruntime==1.31.1 onnxruntime-qnn==2.7.0 onnx==1.23.2 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import numpy as np
import onnxruntime as ort
import onnxruntime_qnn
from onnx import helper, numpy_helper

name = onnxruntime_qnn.get_ep_name()
ort.set_default_logger_severity(3)
ort.register_execution_provider_library(name, onnxruntime_qnn.get_library_path())
devices = [device for device in ort.get_ep_devices() if device.ep_name == name]
X = np.array([[-2.5, -0.4, 0.4, 2.5]], np.float32)


def pair(source, result, scale, zero):
    quantize = helper.make_node("QuantizeLinear", [source, scale, zero], [result + "_q"])
    return [quantize, helper.make_node("DequantizeLinear", [result + "_q", scale, zero], [result])]


def run(operator, dtype, clip=False):
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
    x, y = (helper.make_tensor_value_info(key, 1, [1, 4]) for key in "xy")
    initializers = [numpy_helper.from_array(np.array(value), key) for key, value in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices, {"soc_model": "57", "backend_type": "htp"})
    cpu = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": X})[0][0]
    return cpu, ort.InferenceSession(model, sess_options=options).run(None, {"x": X})[0][0]


print("onnxruntime", ort.__version__, "x:", X[0])
for operator in ("Sigmoid", "Tanh", "HardSigmoid"):
    for dtype, clip in ((np.uint8, False), (np.uint16, False), (np.uint16, True)):
        cpu, npu = run(operator, dtype, clip)
        print(f"{operator} {dtype.__name__}{' with Clip' if clip else ''}: CPU {cpu.round(3)}, QNN {npu.round(3)}")
        assert cpu.min() >= 0 and cpu.max() < 0.52, "the CPU provider does not limit the result"
        assert (npu.max() > 0.9) == (dtype is np.uint16 and not clip), "the behaviour has changed"
PY
"$python" "$folder/run.py"
