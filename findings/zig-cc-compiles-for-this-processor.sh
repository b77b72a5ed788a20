#!/bin/sh
# `zig cc` without -target compiles for the processor of the build machine, unlike clang and gcc.
#
# Expected: `zig cc` is clang with headers, and takes clang's options: without -march it makes code for every x86-64
# processor; -march=native has to be asked for.
# What happens (ziglang 0.17.0, x86-64): a build without -target uses all instructions of this processor. a * b + c
# becomes one FMA instruction, which rounds once instead of twice, so that results differ in the last bit from those of
# gcc, and the program stops with an illegal instruction on an older computer. Nothing in the file or in the build's
# output says so. With -target x86_64-linux-gnu, also if that is the build machine, the code is for every x86-64
# processor.
# What to do: always pass -target (or -mcpu=baseline), also for native builds in containers and CI.
# edgecore: its toolchain files for zig pass a target (`tests/native/test_arm64.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" ziglang==0.17.0)
cat > "$folder/run.py" <<'PY'
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

flags = Path("/proc/cpuinfo").read_text().split()
if "fma" not in flags or "avx2" not in flags:
    print("not on this processor: it has no FMA instructions")
    raise SystemExit(77)
print("ziglang", version("ziglang"))
found = {}
with tempfile.TemporaryDirectory() as folder:
    source = Path(folder, "sum.c")
    source.write_text("double sum(double a, double b, double c) { return a * b + c; }\n")
    caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR", "HOME"), folder)
    for options in ([], ["-target", "x86_64-linux-gnu"], ["-mcpu=baseline"]):
        assembly = Path(folder, "sum.s")
        command = [sys.executable, "-m", "ziglang", "cc", "-O2", *options, "-S", str(source), "-o", str(assembly)]
        subprocess.run(command, check=True, env={"PATH": "/usr/bin:/bin", **caches}, stderr=subprocess.DEVNULL)
        lines = assembly.read_text().splitlines()
        names = [line.split()[0] for line in lines if line.startswith("\t") and line.split()]
        found[" ".join(options)] = [name for name in names if name.startswith(("vfm", "mul", "add", "vmul", "vadd"))]
for options, names in found.items():
    print(f"zig cc -O2 {options}: {names}")
assert any(name.startswith("vfm") for name in found[""]), "the behaviour has changed"
assert found["-target x86_64-linux-gnu"] == found["-mcpu=baseline"] == ["mulsd", "addsd"], "the behaviour has changed"
PY
"$python" "$folder/run.py"
