#!/bin/sh
# onnxruntime's GroupNormalization is NaN for values with a large mean, where LayerNormalization of the same is right.
#
# Expected: both operators normalize by mean and deviation of 64 numbers, so the same numbers as one group or as one row
# give the same, about as exactly as float32 can: x = 100 +- 0.003 has 5 digits for the deviations.
# What happens (onnxruntime 1.31.1, CPU): GroupNormalization (opset 21) is computed as a graph of simpler operators,
# whose variance is mean(x^2) - mean(x)^2. The two numbers near 10000 differ by 1e-5, which float32 does not resolve:
# some groups are NaN, others are wrong by a factor. Values of 1000 +- 1 are off by 0.1. LayerNormalization and
# InstanceNormalization, which have kernels, are right to 0.003.
# What to do: export group norm as InstanceNormalization of groups (as older exporters do), or subtract a typical value.
# edgecore: its kernels subtract the mean before they square (`tests/compile/test_values_of_findings.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" onnxruntime==1.31.1 onnx==1.23.2 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

ort.set_default_logger_severity(3)


def run(operator, x, size, **attributes):
    """Run a norm whose scale is 1 and whose bias is 0."""
    node = helper.make_node(operator, ["x", "scale", "bias"], ["y"], **attributes)
    shapes = {"x": list(x.shape), "scale": [size], "bias": [size]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(x.shape))]
    graph = helper.make_graph([node], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {"x": x, "scale": np.ones(size, np.float32), "bias": np.zeros(size, np.float32)}
    return session.run(None, feeds)[0]


print("onnxruntime", ort.__version__, "onnx", onnx.__version__)
worst, empty = {}, {}
for mean, deviation in ((0, 1), (1000, 1), (100, 0.003)):
    x = (mean + deviation * np.random.default_rng(0).normal(size=(4, 64))).astype(np.float32)
    exact = x.astype(np.float64) - x.mean(-1, keepdims=True, dtype=np.float64)
    exact /= np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-5)
    results = {
        "LayerNormalization": run("LayerNormalization", x, 64),
        "InstanceNormalization": run("InstanceNormalization", x[None], 4)[0],
        "GroupNormalization": run("GroupNormalization", x[None], 4, num_groups=4)[0],
    }
    for name, got in results.items():
        empty[name, mean] = int(np.isnan(got).any(-1).sum())
        worst[name, mean] = float(np.nanmax(np.abs(got - exact), initial=0))
        print(f"{mean} +- {deviation}, {name}: {empty[name, mean]} of 4 groups NaN, error {worst[name, mean]:.2g}")
kernels = [value for (name, _), value in worst.items() if name != "GroupNormalization"]
assert max(kernels) < 0.01 and worst["GroupNormalization", 0] < 1e-4, "the behaviour has changed"
assert empty["GroupNormalization", 100] > 0 and worst["GroupNormalization", 1000] > 0.005, "the behaviour has changed"
PY
"$python" "$folder/run.py"
