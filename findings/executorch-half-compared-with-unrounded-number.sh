#!/bin/sh
# executorch compares a float16 or bfloat16 tensor with the number 0.1 before the number is rounded to that type.
#
# Expected: a comparison with a Python number happens in the dtype of the tensor, as in eager PyTorch: a float16 tensor
# that holds 0.1, as exactly as it can, equals 0.1, and is not greater. So executorch does for float32.
# What happens (torch 2.13.0, executorch 1.5.1, portable kernels): for float16 and bfloat16 the tensor is widened, but
# the number is not rounded first. `x == 0.1` is False for the tensor of 0.1, `x <= 0.7` is False for that of 0.7 in
# float16 (which is 0.70020), and a threshold or padding value that float16 cannot hold is never met.
# What to do: compare with a tensor of that dtype, or with numbers that the type holds exactly (0.5, -1, 0.125).
# edgecore: rounds the number while it compiles, also in files for executorch
# (`tests/compile/test_values_of_findings.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 executorch==1.5.1)
cat > "$folder/run.py" <<'PY'
import warnings

import torch
from executorch.exir import to_edge
from executorch.runtime import Runtime

warnings.simplefilter("ignore")


class Model(torch.nn.Module):
    def forward(self, x):
        return x[0] == 0.1, x[1] >= 0.3, x[2] <= 0.7, x[3] == 0.5


def run(dtype):
    """Return what the portable kernels give, and what eager PyTorch gives."""
    x = torch.tensor([0.1, 0.3, 0.7, 0.5], dtype=dtype)
    buffer = to_edge(torch.export.export(Model(), (x,))).to_executorch().buffer
    got = Runtime.get().load_program(buffer).load_method("forward").execute([x])
    return [bool(value) for value in got], [bool(value) for value in Model()(x)]


print("torch", torch.__version__, "executorch 1.5.1")
seen = {}
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    seen[dtype], eager = run(dtype)
    print(dtype, "x == 0.1, x >= 0.3, x <= 0.7, x == 0.5:", seen[dtype], "PyTorch", eager)
    assert all(eager), "the behaviour has changed"
assert all(seen[torch.float32]), "the behaviour has changed"
assert seen[torch.float16] == [False, True, False, True], "the behaviour has changed"
assert seen[torch.bfloat16] == [False, True, True, True], "the behaviour has changed"
PY
"$python" "$folder/run.py"
