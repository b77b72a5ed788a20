#!/bin/sh
# TOSA's reference model wraps an int32 product around, and stops at an int32 sum that overflows.
#
# Expected: integer overflow is treated alike by the arithmetic operators of one specification: ADD, SUB, MUL, ABS and
# NEGATE of int32 all wrap, or all are errors.
# What happens (tosa-tools 2026.8.0, reference model, TOSA 1.0): 2**31 - 1 plus 1, -2**31 minus 1, and ABS of -2**31 end
# with TOSA_UNPREDICTABLE. MUL of 65,536 and 65,536 is 0 with TOSA_VALID, MUL of 65,537 and 65,537 is 131,073, and
# LOGICAL_LEFT_SHIFT of 3 by 31 is -2**31. A model that the reference model accepts may so contain products that
# overflowed.
# What to do: do not take TOSA_VALID as proof that no integer overflowed; bound the operands of MUL by CLAMP, or compute
# the largest product by hand.
# edgecore: compares the graphs of every operator with an implementation in NumPy
# (`plugins/edgecore-tosa/tests/test_comparisons.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" tosa-tools==2026.8.0 ethos-u-vela==5.2.0 numpy==2.1.3)
cat > "$folder/run.py" <<'PY'
from importlib.metadata import version

import numpy as np
from serializer.tosa_serializer import Op
from tosa_graph import run

print("tosa-tools", version("tosa-tools"))
largest, least = 2**31 - 1, -(2**31)
shift = [np.zeros(1, np.int8)]
cases = [
    ("ADD", lambda a: a.AddAttribute(), [largest, 1], [], None),
    ("SUB", lambda a: a.SubAttribute(), [least, 1], [], None),
    ("ABS", lambda a: a.AbsAttribute(), [least], [], None),
    ("MUL", lambda a: a.MulAttribute(), [65536, 65536], shift, [0]),
    ("MUL", lambda a: a.MulAttribute(), [65537, 65537], shift, [131073]),
    ("LOGICAL_LEFT_SHIFT", lambda a: a.LogicalLeftShiftAttribute(), [3, 31], [], [least]),
]
for operator, attribute, values, constants, expected in cases:
    inputs = [np.array([value], np.int32) for value in values]
    status, result = run(getattr(Op, operator), attribute, inputs, constants, np.int32)
    print(f"{operator} of {values}: {status} {result}")
    assert result == expected, "the behaviour has changed"
    assert (status == "TOSA_VALID") == (expected is not None)
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
