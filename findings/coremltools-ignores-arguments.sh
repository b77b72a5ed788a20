#!/bin/sh
# coremltools drops alpha of sums and differences, approximate of gelu and dtype of reductions.
#
# Expected: an argument that Core ML's operator lacks becomes another operator (alpha a multiplication, dtype a cast),
# or ends the conversion with an error, as beta and alpha of addmm, a divisor_override or a dilation of a max pool do.
# What happens (coremltools 9.0, torch 2.13.0): torch.add(x, y, alpha=3) and x - 3 * y written as torch.sub(x, y,
# alpha=3) convert to plain add and sub, so they compute x + y and x - y. gelu(x, approximate="tanh") converts to the
# exact gelu. x.sum(1, dtype=torch.int32) of [0.7, 0.7], which is 0 in PyTorch because each number is cast before, is a
# sum of float32, 1.4. Nothing is said.
# What to do: write x + 3 * y, and casts as calls of their own; list the operators of the converted program once.
# edgecore: leaves calls with these arguments to other kernels, with the reason
# (`plugins/edgecore-coreml/tests/test_operators.py`).
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
x, y = torch.rand(2, 3), torch.rand(2, 3)
calls = {
    "add(x, y, alpha=3)": (lambda a, b: torch.add(a, b, alpha=3), "add"),
    "sub(x, y, alpha=3)": (lambda a, b: torch.sub(a, b, alpha=3), "sub"),
    'gelu(x + y, approximate="tanh")': (lambda a, b: torch.nn.functional.gelu(a + b, approximate="tanh"), "add gelu"),
    "sum(x + y, 1, dtype=int32)": (lambda a, b: (a + b).sum(1, dtype=torch.int32), "add reduce_sum"),
    "x + 3 * y": (lambda a, b: a + 3 * b, "mul add"),
}
for call, (function, expected) in calls.items():
    operators = convert(function, x, y)
    modes = [op.mode.val for op in operators if op.op_type == "gelu"]
    kinds = " ".join(op.op_type for op in operators)
    print(f"{call}: {kinds} {modes or ''}")
    assert kinds == expected and modes in ([], ["EXACT"]), "the behaviour has changed"
sums = torch.tensor([[0.7, 0.7]])
print("in PyTorch the sum of 0.7 and 0.7 with dtype int32 is", int(sums.sum(1, dtype=torch.int32)))
assert int(sums.sum(1, dtype=torch.int32)) == 0
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
