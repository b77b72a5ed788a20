#!/bin/sh
# onnxruntime-qnn computes a sigmoid or tanh that follows a layer less precisely than a separate one.
#
# Expected: fusing an activation with the layer before it saves time and changes the fp16 result by a step of rounding
# at most.
# What happens (onnxruntime-qnn 2.7.0, HTP emulator of the wheel, SM8650): behind Gemm or Conv the error of Sigmoid is
# 0.3 to 0.4% of the largest value, of Tanh 0.7%; with a Clip between the two that changes no number, it is less than
# half of that. Elu, HardSwish and Relu have the same error both ways. Such errors add up over the layers of a network.
# What to do: put a Clip to [-300, 300] between the layer and the activation.
# edgecore: writes sigmoid, tanh and what uses them so that nothing fuses them
# (`plugins/edgecore-qnn/tests/test_qnn_fp16.py`).
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


def run(nodes, inputs, constants=None, kind=1, soc="57"):
    """Return the output "y" of both providers: CPU, QNN."""
    kinds = {key: helper.np_dtype_to_tensor_dtype(value.dtype) for key, value in inputs.items()}
    ins = [helper.make_tensor_value_info(key, kinds[key], value.shape) for key, value in inputs.items()]
    initializers = [numpy_helper.from_array(np.array(value), key) for key, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", ins, [helper.make_tensor_value_info("y", kind, None)], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices, {"soc_model": soc, "backend_type": "htp"})
    cpu = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    return cpu, ort.InferenceSession(model, sess_options=options).run(None, inputs)[0]


def errors(layer, operator):
    """Return the largest errors, relative to the largest value: fused, and with a Clip between."""
    random = np.random.default_rng(0)
    kernel = (16, 16) if layer == "Gemm" else (16, 16, 1, 1)
    constants = {
        "w": (random.standard_normal(kernel) / 4).astype(np.float32),
        "b": random.standard_normal(16).astype(np.float32), "low": np.float32(-300), "high": np.float32(300),
    }  # fmt: skip
    x = (4 * random.standard_normal((16, 16) if layer == "Gemm" else (1, 16, 4, 4))).astype(np.float32)
    first = helper.make_node(layer, ["x", "w", "b"], ["a"])
    clip = helper.make_node("Clip", ["a", "low", "high"], ["c"])
    fused = [first, helper.make_node(operator, ["a"], ["y"])]
    apart = [first, clip, helper.make_node(operator, ["c"], ["y"])]
    pairs = [run(nodes, {"x": x}, constants) for nodes in (fused, apart)]
    return [float(np.abs(npu - cpu).max() / np.abs(cpu).max()) for cpu, npu in pairs]


print("onnxruntime", ort.__version__)
for operator in ("Sigmoid", "Tanh", "Elu", "HardSwish", "Relu"):
    for layer in ("Gemm", "Conv"):
        fused, apart = errors(layer, operator)
        print(f"{layer}, {operator}: error {fused:.2%}, with a Clip between {apart:.2%}")
        is_coarse = operator in ("Sigmoid", "Tanh")
        assert (fused > 2 * apart) == is_coarse and apart < 0.005, "the behaviour has changed"
PY
"$python" "$folder/run.py"
