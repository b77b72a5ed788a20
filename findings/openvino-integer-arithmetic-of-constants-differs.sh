#!/bin/sh
# OpenVINO computes integer quotients and 8-bit sums otherwise when both operands are constants.
#
# Expected: folding constants while a model is compiled gives what the operator gives at run time; -5 / 3 of int32 is
# one of -1 (C, ONNX) and -2 (Python), and 200 + 100 of uint8 one of 44 (modulo 256) and 255 (limited), in both cases.
# What happens (openvino 2026.4.1, CPU plugin on x86-64): Divide of inputs truncates, -5 / 3 is -1; of constants it
# rounds down, -2, and in int8 it rounds to the nearest, so that even 5 / 3 is 2 instead of 1. Add, Subtract and
# Multiply of uint8 inputs are limited to 0 to 255; of constants they wrap. Whether a number is a weight, or comes in as
# an input, so changes results that are exact integers.
# What to do: convert to int32 before arithmetic on 8 bits; divide non-negative integers only, or write floor(a / b) in
# float32; freeze an input into a constant only after a test of such operators.
# edgecore: leaves arithmetic of integers to its own kernels (`plugins/edgecore-openvino/tests/test_partitioner.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" openvino==2026.4.1 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import numpy as np
import openvino as ov
from openvino import opset13 as op

core = ov.Core()


def run(build, dtype, values, folded):
    """Compute on inputs, or on constants."""
    arrays = [np.array(value, dtype) for value in values]
    if folded:
        idle = op.parameter([1], np.float32)
        model = ov.Model([build(*map(op.constant, arrays)), op.relu(idle)], [idle])
        arrays = [np.zeros(1, np.float32)]
    else:
        parameters = [op.parameter(array.shape, dtype) for array in arrays]
        model = ov.Model([build(*parameters)], parameters)
    return list(core.compile_model(model, "CPU")(arrays).values())[0].tolist()


quotient, small = ([5, -5, -7], [3, 3, 2]), ([200, 1, 255], [100, 2, 255])
cases = {
    "int32 [5, -5, -7] / [3, 3, 2]": (op.divide, np.int32, quotient, [1, -1, -3], [1, -2, -4]),
    "int8 [5, -5, -7] / [3, 3, 2]": (op.divide, np.int8, quotient, [1, -1, -3], [2, -2, -4]),
    "uint8 [200, 1, 255] + [100, 2, 255]": (op.add, np.uint8, small, [255, 3, 255], [44, 3, 254]),
    "uint8 [200, 1, 255] - [100, 2, 255]": (op.subtract, np.uint8, small, [100, 0, 0], [100, 255, 0]),
}
print("openvino", ov.__version__)
for name, (build, dtype, values, *wanted) in cases.items():
    seen = [run(build, dtype, values, folded) for folded in (False, True)]
    print(f"{name}: of inputs {seen[0]}, of constants {seen[1]}")
    assert seen == wanted, "the behaviour has changed"
PY
"$python" "$folder/run.py"
