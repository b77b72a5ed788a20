#!/bin/sh
# onnxruntime-qnn computes a 16-bit linear layer wrongly if it reads a layer norm of 16 rows.
#
# Expected: a quantized layer norm and the Gemm that reads it (activations of uint16, weights of int8) differ from ONNX
# Runtime's CPU provider by some of 65,536 steps, for any number of rows; or the provider refuses a node.
# What happens (onnxruntime-qnn 2.7.0, HTP emulator of the wheel, SM8650): with 16 rows the results of the Gemm are
# wrong by more than the largest of them. With 15, 17 or 32 rows, and with 16 rows and a Clip to the range of the
# integers between the two, they are right to 0.1%.
# What to do: put an operator that changes nothing between the two, such as a Clip with a QuantizeLinear of its own;
# compare each layer of a 16-bit model with the CPU provider, for the number of rows that you use.
# edgecore: puts a clamp behind each layer norm of 16 bits (`plugins/edgecore-qnn/tests/test_networks.py`).
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


def pair(source, result, scale):
    quantize = helper.make_node("QuantizeLinear", [source, scale, "z"], [result + "_q"])
    return [quantize, helper.make_node("DequantizeLinear", [result + "_q", scale, "z"], [result])]


def error(rows, clip=False):
    """Return the largest difference from the CPU provider, relative to the largest result."""
    random = np.random.default_rng(0)
    constants = {
        "z": np.uint16(32768), "xs": np.float32(1e-4), "ns": np.float32(1e-4), "ys": np.float32(2e-4),
        "g": np.full(32, 65535, np.uint16), "gs": np.float32(1 / 65535), "b": np.zeros(32, np.uint16),
        "bs": np.float32(1), "zero": np.uint16(0), "low": np.float32(-3.2768), "high": np.float32(3.2767),
        "w": random.integers(-127, 128, (32, 32)).astype(np.int8), "ws": np.full(32, 0.002, np.float32),
        "wz": np.zeros(32, np.int8), "o": np.zeros(32, np.int32), "os": np.full(32, 2e-7, np.float32),
    }  # fmt: skip
    nodes = pair("x", "a", "xs") + [
        helper.make_node("DequantizeLinear", ["g", "gs", "zero"], ["gain"]),
        helper.make_node("DequantizeLinear", ["b", "bs", "zero"], ["bias"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["weight"], axis=0),
        helper.make_node("DequantizeLinear", ["o", "os"], ["offset"], axis=0),
        helper.make_node("LayerNormalization", ["a", "gain", "bias"], ["n"], axis=-1),
        *pair("n", "m", "ns"),
    ]
    if clip:
        nodes += [helper.make_node("Clip", ["m", "low", "high"], ["c"]), *pair("c", "d", "ns")]
    nodes += [helper.make_node("Gemm", ["d" if clip else "m", "weight", "offset"], ["r"], transB=1)]
    x = random.uniform(-2, 2, (rows, 32)).astype(np.float32)
    cpu, npu = run(nodes + pair("r", "y", "ys"), {"x": x}, constants)
    return float(np.abs(npu - cpu).max() / np.abs(cpu).max())


print("onnxruntime", ort.__version__)
for rows, clip in ((15, False), (16, False), (17, False), (32, False), (16, True)):
    wrong = error(rows, clip)
    print(f"{rows} rows{', Clip between' if clip else ''}: largest difference from the CPU provider {wrong:.3%}")
    assert (wrong > 0.5) if (rows, clip) == (16, False) else wrong < 0.01, "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
