#!/bin/sh
# TOSA's RESCALE takes inputs below 2**(shift - 1) only, so an identity from int32 to int32 fails at 2**29.
#
# Expected: RESCALE of int32 scales any input and limits the result to the type of the output; the same factor behaves
# alike, whichever multiplier and shift express it; an accumulator that is too large becomes 127 in int8.
# What happens (tosa-tools 2026.8.0, reference model, TOSA 1.0): with multiplier 2**30 and shift 30, a factor of 1, all
# inputs from 2**29 on end the run with TOSA_UNPREDICTABLE, in int32 as in int8, though input and result fit into 32
# bits. With shift 31, a factor of 1/2, 2**30 fails; expressed as 2**29 and shift 30 the same factor fails from 2**29
# on. From shift 32 on, factors of 1/4 and less, every input is fine. A graph passes its tests until one large
# accumulator comes.
# What to do: use the largest multiplier and shift for a factor (a multiplier of 31 bits), and put a CLAMP before a
# RESCALE whose shift is below 32.
# edgecore: takes multipliers of 31 bits, and runs the graphs of every operator in the reference model
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


def rescale(value, multiplier, shift, kind):
    constants = [np.array([multiplier], np.int32), np.array([shift], np.int8), np.zeros(1, np.int32), np.zeros(1, kind)]
    inputs = [np.array([value], np.int32)]
    return run(Op.RESCALE, lambda a: a.RescaleAttribute(True, 1, False, False, False), inputs, constants, kind)


largest = 2**31 - 1
cases = {
    (2**29 - 1, 1 << 30, 30, np.int32): [2**29 - 1], (2**29, 1 << 30, 30, np.int32): None,
    (2**29, 1 << 30, 30, np.int8): None, (2**29, 1 << 30, 31, np.int32): [2**28], (2**30, 1 << 30, 31, np.int32): None,
    (2**29, 1 << 29, 30, np.int32): None, (largest, 1 << 30, 32, np.int32): [2**29],
    (largest, 1 << 30, 32, np.int8): [127],
}  # fmt: skip
for (value, multiplier, shift, kind), expected in cases.items():
    status, result = rescale(value, multiplier, shift, kind)
    print(f"{value} * {multiplier} >> {shift} to {kind.__name__}: {status} {result}")
    assert result == expected and (status == "TOSA_UNPREDICTABLE") == (expected is None), "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
