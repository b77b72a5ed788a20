#!/bin/sh
# executorch's remainder of integers takes the sign of the dividend, so that -1 % 8 is -1.
#
# Expected: `x % n` has the sign of n, as in PyTorch and Python, for integers as for floats: -1 % 8 is 7. Models rely on
# it for positions in a ring buffer and for windows that wrap around.
# What happens (torch 2.13.0, executorch 1.5.1, portable kernels): for int64, int32 and int8 the kernel of
# aten.remainder computes C's `%`: -1 % 8 is -1 and 5 % -3 is 2 instead of -1. For float32 it is right, and so is the
# integer floor division, so that (a // b) * b + a % b is not a any more.
# What to do: write a - (a // b) * b, or add n before the remainder: (x + n) % n; test with negative numbers.
# edgecore: its kernels give PyTorch's remainder, of every dtype (`tests/compile/test_values_of_findings.py`).
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
    def forward(self, a, b):
        return a % b, torch.div(a, b, rounding_mode="floor")


def run(dtype):
    """Return what the portable kernels give, and what eager PyTorch gives."""
    x = torch.tensor([-1, 5, -5, 5, 7], dtype=dtype), torch.tensor([8, -3, 3, 3, 7], dtype=dtype)
    buffer = to_edge(torch.export.export(Model(), x)).to_executorch().buffer
    return Runtime.get().load_program(buffer).load_method("forward").execute(list(x)), Model()(*x)


print("torch", torch.__version__, "executorch 1.5.1")
for dtype in (torch.int64, torch.int32, torch.int8, torch.float32):
    (remainder, quotient), (wanted, floor) = run(dtype)
    print(dtype, "remainder", remainder.tolist(), "PyTorch", wanted.tolist(), "floor division", quotient.tolist())
    assert torch.equal(quotient, floor), "the behaviour has changed"
    signs = [-1, 2, -2, 2, 0] if dtype != torch.float32 else wanted.tolist()
    assert remainder.tolist() == signs and wanted.tolist() == [7, -1, 1, 2, 0], "the behaviour has changed"
PY
"$python" "$folder/run.py"
