#!/bin/sh
# coremltools limits integer constants beyond 32 bits, but wraps the negative ones in tensors around.
#
# Expected: Core ML has no int64, so a constant that int32 cannot hold ends the conversion, or all of them are limited
# to the range of int32, or all are cut to their low 32 bits.
# What happens (coremltools 9.0, torch 2.13.0): a number becomes the nearer of -2**31 and 2**31 - 1, so x * 2**33
# multiplies by 2,147,483,647. In a tensor 3,000,000,000 becomes 2**31 - 1, too, but -3,000,000,000 keeps its low 32
# bits and becomes 1,294,967,296, and -2**31 - 1 becomes 2**31 - 1. So with the limit torch.tensor([-3_000_000_000]), x
# > limit is false for x = 1. torch.full of 3,000,000,000 is 2,147,483,648 in float32. Nothing is said.
# What to do: keep constants within 32 bits; write "no limit" as -2**31 and 2**31 - 1, not as the limits of int64.
# edgecore: leaves calls with such constants to other kernels, with the reason
# (`tests/partition/kit/test_operator_table.py`).
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
most = 2**31 - 1
x = torch.tensor([1, 2])
calls = {
    "x < 3_000_000_000": (lambda a: a < 3_000_000_000, [most]),
    "x > -3_000_000_000": (lambda a: a > -3_000_000_000, [-most - 1]),
    "x * 2**33": (lambda a: a * 2**33, [most]),
    "x > tensor([3_000_000_000])": (lambda a: a > torch.tensor([3_000_000_000]), [most]),
    "x > tensor([-3_000_000_000])": (lambda a: a > torch.tensor([-3_000_000_000]), [-3_000_000_000 + 2**32]),
    "x + tensor([2**31, -(2**31) - 1])": (lambda a: a + torch.tensor([2**31, -(2**31) - 1]), [most, most]),
    "x + full((2,), 3_000_000_000)": (lambda a: a + torch.full((2,), 3_000_000_000), [2147483648.0] * 2),
}
for call, (function, expected) in calls.items():
    first = next(op for op in convert(function, x) if op.op_type != "cast")
    value = next(value.val for value in (first.y, first.x) if value.val is not None)
    print(f"{call}: {first.op_type} with {value.ravel().tolist()} {value.dtype}")
    assert value.ravel().tolist() == expected, "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
