#!/bin/sh
# OpenVINO's Mod and FloorMod of float32 return remainders that are larger than the divisor.
#
# Expected: the remainder of a division by 7 lies between -7 and 7 for any number; C's fmod and NumPy compute it
# exactly, as every float32 is a whole multiple of its last bit: 1e9 mod 7 is 6.
# What happens (openvino 2026.4.1, CPU plugin on x86-64): the plugin computes x - 7 * floor(x / 7) in float32, and
# rounds the product. 1e9 mod 7 is 64. From 1e8 on errors exceed the divisor, and one in six to ten results is negative
# or too large. Angles and times that are reduced to one period so come out far outside of it, and indices outside of a
# table.
# What to do: reduce large values before they enter the model, or convert to int32 and take the remainder of integers.
# edgecore: leaves remainders to its own kernels, which use C's fmod (`tests/compile/test_values_of_findings.py`).
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


def run(build, x, divisor):
    parameter = op.parameter(x.shape, np.float32)
    model = ov.Model([build(parameter, op.constant(np.float32(divisor)))], [parameter])
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return list(compiled([x]).values())[0]


print("openvino", ov.__version__)
for divisor in (7.0, 6.2831855):
    for size in (1e3, 1e8, 1e9):
        x = (size * np.linspace(1, 1.3, 1000)).astype(np.float32)
        exact = np.fmod(x, np.float32(divisor))
        for name, build in (("Mod", op.mod), ("FloorMod", op.floor_mod)):
            got = run(build, x, divisor)
            outside = int(((got < 0) | (got >= np.float32(divisor))).sum())
            line = f"{name} by {divisor:g} of numbers near {size:g}: {outside} of 1000 outside of 0 to {divisor:g},"
            print(line, f"largest error {np.abs(got - exact).max():.3g}")
            assert (outside > 50) == (size > 1e3), "the behaviour has changed"
print("1e9 mod 7:", run(op.mod, np.float32([1e9]), 7)[0], "NumPy", np.fmod(np.float32(1e9), np.float32(7)))
assert run(op.mod, np.float32([1e9]), 7)[0] == 64, "the behaviour has changed"
PY
"$python" "$folder/run.py"
