#!/bin/sh
# TOSA's TABLE of int16 refuses a table with a step of more than 32,767 between neighbours, where an input meets it.
#
# Expected: a table of int16 values may hold any int16 values, as the table of int8 may: a comparison or a sign becomes
# a table that jumps from -32,767 to 32,767.
# What happens (tosa-tools 2026.8.0, reference model, TOSA 1.0): TABLE of int16 interpolates between 513 entries, and
# the difference of neighbours must fit into 16 bits. An input between the two entries of the jump ends the run with
# TOSA_UNPREDICTABLE; inputs elsewhere are fine, so the graph may pass its tests. The interpolation also reads the entry
# after the last: -32768 to 32767 lies in 512 intervals of 128, and the result is int32 with 7 more bits. With int8 the
# same table works for every input.
# What to do: limit the steps of a 16-bit table, so that the jump takes two intervals; or compare with GREATER and
# SELECT.
# edgecore: refuses int16 operators with steps, such as sign and round, with this reason
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


def table(values, kind, entries):
    result = np.int8 if kind is np.int8 else np.int32
    return run(Op.TABLE, lambda a: a.TableAttribute(), [np.array(values, kind)], [entries], result)


positions = np.arange(513) - 256
sign = (np.where(positions > 0, 1, -1) * 32767).astype(np.int16)
slower = (np.clip(positions, -1, 1) * 32767).astype(np.int16)
short = np.where(np.arange(256) - 128 > 0, 127, -127).astype(np.int8)
cases = [
    ("int16, sign, inputs beyond the jump", table([-500, -1, 128, 500], np.int16, sign)),
    ("int16, sign, an input within the jump", table([5], np.int16, sign)),
    ("int16, the jump in two intervals", table([-128, -64, 0, 64, 128], np.int16, slower)),
    ("int8, sign", table([-128, -1, 0, 1, 127], np.int8, short)),
]
for name, (status, result) in cases:
    print(f"{name}: {status} {result}")
assert [status for _, (status, _) in cases] == ["TOSA_VALID", "TOSA_UNPREDICTABLE", "TOSA_VALID", "TOSA_VALID"]
assert cases[2][1][1] == [-32767 * 128, -32767 * 64, 0, 32767 * 64, 32767 * 128], "the behaviour has changed"
PY
PYTHONPATH="$here/helpers" "$python" "$folder/run.py"
