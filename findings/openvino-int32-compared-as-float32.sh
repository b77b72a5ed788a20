#!/bin/sh
# OpenVINO's CPU plugin compares and adds up int32 tensors as float32: neighbours above 16,777,216 are equal.
#
# Expected: tensors of int32 are compared and reduced as integers, as maximum, addition and cumulative sum are: 16777217
# differs from 16777216, and the sum of 16777217, 1 and 1 is 16777219.
# What happens (openvino 2026.4.1, CPU plugin on x86-64): equal, not_equal, less and reduce_sum, reduce_max convert
# int32 to float32, which has 24 bits. equal(16777217, 16777216) is True, less(16777216, 16777217) False, the sum above
# 16777216 and the maximum of 16777217 and 16777216 is the second. The result has the type int32, so nothing tells. The
# same operators on constants are right, because they are computed while the model is compiled.
# What to do: keep hashes, time stamps, colours and large offsets (above 16 million) out of OpenVINO's part of a model,
# or subtract first and compare the difference with 0.
# edgecore: leaves comparisons and sums of integers to its own kernels
# (`plugins/edgecore-openvino/tests/test_partitioner.py`).
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
axis = np.array([0])


def run(build, *values, folded=False):
    """Compute on inputs, or on constants."""
    arrays = [np.array(value, np.int32) for value in values]
    if folded:
        idle = op.parameter([1], np.float32)
        model = ov.Model([build(*map(op.constant, arrays)), op.relu(idle)], [idle])
        arrays = [np.zeros(1, np.float32)]
    else:
        parameters = [op.parameter(array.shape, np.int32) for array in arrays]
        model = ov.Model([build(*parameters)], parameters)
    result = list(core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(arrays).values())[0]
    return result.tolist()


a, b = [16777217], [16777216]
cases = {
    "equal(16777217, 16777216)": (op.equal, a, b),
    "less(16777216, 16777217)": (op.less, b, a),
    "sum of 16777217, 1, 1": (lambda x: op.reduce_sum(x, axis, False), [16777217, 1, 1]),
    "reduce_max of both": (lambda x: op.reduce_max(x, axis, False), a + b),
    "maximum of both": (op.maximum, a, b),
    "16777217 - 16777216": (op.subtract, a, b),
}
got = {name: (run(*case), run(*case, folded=True)) for name, case in cases.items()}
print("openvino", ov.__version__)
for name, (computed, folded) in got.items():
    print(f"{name}: of inputs {computed}, of constants {folded}")
computed, folded = zip(*got.values())
assert folded == ([False], [True], 16777219, 16777217, [16777217], [1]), "the behaviour has changed"
assert computed == ([True], [False], 16777216, 16777216, [16777217], [1]), "the behaviour has changed"
PY
"$python" "$folder/run.py"
