#!/bin/sh
# coremltools converts x.argmax() without a dim to the argmax of each row.
#
# Expected: x.argmax() of a matrix converts to the index into the flattened tensor, one number, as x.max() converts to
# the maximum of all; or the conversion fails.
# What happens (coremltools 9.0, torch 2.13.0): argmax and argmin become reduce_argmax and reduce_argmin along the last
# axis, so the output of a [2, 3] input has the shape [2] instead of []. The exported program itself says []. For a
# vector the result is right, which hides it in a test.
# What to do: write x.flatten().argmax(0).
# edgecore: delegates argmax and argmin along one dim only (`plugins/edgecore-coreml/tests/test_operators.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 coremltools==9.0 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import coremltools as ct
import torch
from coremltools_program import convert

print("coremltools", ct.__version__, "torch", torch.__version__)
x = torch.tensor([[1.0, 5.0, 2.0], [7.0, 3.0, 4.0]])
calls = {
    "argmax()": (torch.argmax, (2,)),
    "argmin()": (torch.argmin, (2,)),
    "max()": (torch.max, ()),
    "flatten().argmax(0)": (lambda value: value.flatten().argmax(0), ()),
}
for call, (function, expected) in calls.items():
    last = convert(function, x)[-1]
    shape = tuple(last.outputs[0].shape)
    print(f"{call}: {last.op_type} with the output {shape}; PyTorch: {tuple(function(x).shape)}, {function(x)}")
    assert shape == expected, "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
