#!/bin/sh
# coremltools' atan2 gives 0 for the negative half of the x axis, and wrong angles for small numbers.
#
# Expected: atan2(0, -1) is pi, atan2(1e-9, 1e-9) is pi / 4, and no result is beyond pi, as in PyTorch and every C
# library.
# What happens (coremltools 9.0, torch 2.13.0): atan2 becomes some 30 operators around atan(y / x), which add pi where y
# > 0 and x < 0 and subtract it where y < 0 and x < 0; y = 0 with x < 0 is neither, so atan2(0, -1) is 0. Where |x| is
# below 1e-8, 2e-8 is added to x: atan2(1e-9, 1e-9) is 0.048, and atan2(-1e-9, -1e-9) is -3.194, beyond -pi. So angles
# of vectors that point left jump by pi at y = 0. These values are coremltools' own: it evaluates operators of
# constants.
# What to do: compute angles outside of the model, or add a number like 1e-6 to a y of 0 where x is negative; scale
# small vectors up.
# edgecore: does not delegate atan2 to Core ML (`plugins/edgecore-coreml/tests/test_operators.py`).
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
y = torch.tensor([0.0, 0.0, 1e-9, -1e-9, 1.0, 1.0])
x = torch.tensor([-1.0, 1.0, 1e-9, -1e-9, 0.0, -1.0])
print(len(convert(torch.atan2, torch.rand(6), torch.rand(6))), "operators")
(total,) = convert(lambda a: a + torch.atan2(y, x), torch.rand(6))  # of constants: coremltools evaluates it
folded = next(value.val for value in (total.y, total.x) if value.val is not None)
right = torch.atan2(y, x)
for row in zip(y.tolist(), x.tolist(), folded.tolist(), right.tolist()):
    print("atan2(%g, %g): coremltools %.4f, PyTorch %.4f" % row)
wrong = abs(folded - right.numpy()) > 1e-4
assert wrong.tolist() == [True, False, True, True, False, False], "the behaviour has changed"
assert folded[0] == 0 and folded[3] < -3.15, "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
