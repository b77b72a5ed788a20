#!/bin/sh
# coremltools truncates a quotient by a constant after multiplying by the reciprocal, so that 41 / 41 gives 0.
#
# Expected: torch.div(x, 41, rounding_mode="trunc") of 41 is 1, of integers and of floats: the quotient is computed by a
# division before it is truncated, as rounding_mode="floor" is (floor_div); and a quotient of int32 is int32.
# What happens (coremltools 9.0, torch 2.13.0): a division by a number becomes a multiplication by its float32
# reciprocal, and truncation comes after that: 41 * float32(1 / 41) is 0.99999994, which gives 0. Of the divisors from 1
# to 200, 23 give a quotient of 0 for themselves. Integers are cast to float32 for it, too, and the output of the model
# has the type float32. The same holds for a constant tensor of divisors, and for floor(x / 41), which gives 0.
# What to do: use rounding_mode="floor", or remove the pass common::divide_to_multiply from the pipeline of ct.convert.
# edgecore: removes this pass where quotients are rounded (`plugins/edgecore-coreml/tests/test_operators.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 coremltools==9.0 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import coremltools as ct
import numpy as np
import torch
from coremltools_program import convert

print("coremltools", ct.__version__, "torch", torch.__version__)


def truncated(divisor):
    return lambda value: torch.div(value, divisor, rounding_mode="trunc")


for x in (torch.tensor([41, 82], dtype=torch.int32), torch.tensor([41.0, 82.0])):
    operators = convert(truncated(41), x)
    kinds = [op.op_type for op in operators if op.op_type != "cast"]
    factor = next(op for op in operators if op.op_type == "mul").y.val
    product = np.float32(41) * factor
    print(f"{x.dtype}: {kinds}, 41 * {factor!r} = {product!r}, truncated {int(product)}; PyTorch: {truncated(41)(x)}")
    assert kinds[0] == "mul" and "real_div" not in kinds and int(product) == 0, "the behaviour has changed"
    assert operators[-1].outputs[0].dtype.__name__ == "fp32", "the behaviour has changed"
wrong = [n for n in range(1, 201) if int(np.float32(n) * np.float32(1 / n)) == 0]
print("divisors whose quotient with themselves is 0:", wrong)
floored = convert(lambda value: torch.div(value, 41, rounding_mode="floor"), torch.rand(2))
divided = convert(lambda value: torch.div(value, torch.tensor([41.0, 7.0]), rounding_mode="trunc"), torch.rand(2))
then = convert(lambda value: torch.floor(value / 41), torch.rand(2))
print("floor(x / 41):", [op.op_type for op in then])
assert [op.op_type for op in then] == ["mul", "floor"], "the behaviour has changed"
print("floor:", [op.op_type for op in floored], "by a tensor:", [op.op_type for op in divided])
assert floored[0].op_type == "floor_div" and divided[0].op_type == "mul", "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
