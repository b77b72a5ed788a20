#!/bin/sh
# onnxruntime-qnn's Sin and Cos lose the angle: of 128 the sine is off by 0.09, of 1000 by 0.12.
#
# Expected: a model in fp16 gives the sine of a number that fp16 holds exactly, such as 128, to about 0.0005, as
# PyTorch's and NumPy's float16 do: the operator reduces its argument with more bits.
# What happens (onnxruntime-qnn 2.7.0, HTP emulator of the wheel, SM8650): the argument is reduced in 16 bits, so the
# error grows with it, as if the angle was off by a thousandth: 0.09 at 128, 0.08 at 500, 0.12 at 1000. Up to 3 it is
# 0.002. For 2000 the cosine is 0, the right one is -0.37. Positions and time stamps as angles give wrong phases.
# What to do: subtract multiples of 2 pi before, in parts whose products fp16 holds (6, 0.25, 0.03125 and the rest); or
# read tables of sines.
# edgecore: subtracts multiples of 2 pi before the NPU's operator, in parts that fp16 holds exactly
# (`plugins/edgecore-qnn/tests/test_fp16.py`).
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

angles = np.array([[0.5, 1, 2, 3, 10, 50, 128, 500, 1000, 2000]], np.float32)
print("onnxruntime", ort.__version__, "angles", angles[0].tolist())
for operator, half in (("Sin", np.sin), ("Cos", np.cos)):
    cpu, npu = run([helper.make_node(operator, ["x"], ["y"])], {"x": angles})
    errors = np.abs(npu.astype(float) - cpu)[0]
    print(f"{operator}: errors of QNN {errors.round(4).tolist()}")
    in_half = np.abs(half(angles.astype(np.float16)).astype(float) - cpu)[0]
    print(f"{operator}: errors of NumPy's float16 {in_half.round(4).tolist()}")
    assert in_half.max() < 0.001 and errors[:4].max() < 0.005
    assert errors[6] > 0.05 and errors[8] > 0.05 and errors[9] > 0.05, "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
