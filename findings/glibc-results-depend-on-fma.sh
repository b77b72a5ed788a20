#!/bin/sh
# glibc's exp, sin, log and pow give other last bits on processors without FMA.
#
# Expected: one and the same libm.so gives one result for exp(x): the code is fixed, IEEE arithmetic is exact to the
# last bit, and a rounding error is the same everywhere.
# What happens (glibc 2.36 and others, x86-64): at load, glibc chooses one of several compilations of these functions,
# by the processor: with FMA a product and a sum are rounded once instead of twice. Of 200,000 numbers a few in 100,000
# differ in the last bit of a float64 (exp, sin, cos, log, pow, atan, tanh; not cbrt). Files that were compared byte by
# byte between two computers so differ, even in one container image. Python's math, NumPy's scalars and C++ code use it.
# What to do: compare numbers with a tolerance of a few last bits, never digests of results; to reproduce another
# machine, set GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-AVX2.
# edgecore: compares results of processors within tolerances (`tests/kernels/test_emulated.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import json
import math
import platform
import random
import sys
from pathlib import Path

import numpy as np

library, version = platform.libc_ver()
flags = Path("/proc/cpuinfo").read_text().split() if platform.machine() == "x86_64" else []
if library != "glibc" or "fma" not in flags:
    print("not on this processor: it needs glibc on x86-64 with FMA")
    raise SystemExit(0 if not sys.argv[1:] else 77)
generator = random.Random(0)
numbers = [generator.uniform(0.01, 20) for _ in range(200_000)]
functions = {
    name: getattr(math, name) for name in ("exp", "sin", "cos", "log", "pow", "atan", "tanh", "cbrt")
}
functions["pow"] = lambda x: math.pow(x, 1.37)
values = {name: [function(x).hex() for x in numbers] for name, function in functions.items()}
if not sys.argv[1:]:
    Path(__file__).with_suffix(".json").write_text(json.dumps(values))
    raise SystemExit(0)
before = json.loads(Path(__file__).with_suffix(".json").read_text())
print("numpy", np.__version__, library, version)
changed = {name: sum(a != b for a, b in zip(before[name], values[name])) for name in values}
for name, count in changed.items():
    print(f"{name}: {count} of {len(numbers)} results differ without FMA")
assert min(changed[name] for name in ("exp", "sin", "cos", "log", "pow")) > 0, "the behaviour has changed"
assert changed["cbrt"] == 0, "the behaviour has changed"
PY
full=$("$python" "$folder/run.py")
export GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2
"$python" "$folder/run.py" "$full"
"$python" "$folder/run.py"
