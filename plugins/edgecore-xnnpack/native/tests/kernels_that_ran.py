"""Check that the kernel tests run every kernel that the delegate can select, between guard pages.

``python kernels_that_ran.py BUILD SOURCES``, where BUILD is a build folder as for ``run_kernels.py``, and SOURCES is the
patched XNNPACK (``get_xnnpack.py --sources``). For each kind of processor, gdb runs the tests with a breakpoint on each
kernel. The kernels that must run are those that a table of ``src/configs`` names and the program contains, without those
of ``UNUSED``. The exit status is 1 if one did not run. Kinds that this processor lacks are skipped: use the emulated
library for these.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from run_kernels import PROCESSORS

KERNEL = re.compile(r"\bxnn_\w+_ukernel\w*")
# Kernels that tables name and that need not run, by the reason.
UNUSED = {
    "channels first, for sparse networks": r"_chw|hwc2chw|_spmm_",
    "operators that the delegate does not use": (
        r"_zip_|_unpool_|_vcmul_|copysign|_vsqrdiff|_vrnd(?:ne|z)_|lut32norm|u8_rmax_|_rsum_|_x8_packq_"
    ),
    "types that these operators do not have in the delegate": r"_qu8_avgpool|_x64_transposec|_qd8_f16_qc8w_igemm_",
    "convolutions have a scale for each channel": r"xnn_qs8_dwconv_",
    "ranges of int8 are tables (tables.cpp), or part of other nodes": r"_[su]8_vclamp_",
    "branches that no processor reaches": (
        r"(?:qd8_f32_qc[48]w|qs8_qc8w)_i?gemm_.*__avx256skx|qd8_f32_qc4w_.*vnnigfni|vlog_ukernel__avx2|vlrelu_ukernel__ssse3"
    ),
    "fp16 is computed in fp32 without AVX2": r"vtanh_ukernel__f16c_expm1",
    # A gap: convolutions in the tests either have more output pixels or run with VNNI.
    "one row of AMX; the kernels of more rows, from the same template, run": r"_qs8_qc8w_igemm_.*_1x64c4__avx512amx",
}


def contained(program: Path) -> set[str]:
    """Return the kernels that a program contains."""
    symbols = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True, check=True).stdout
    return {name for name in re.findall(r" [Tt] (xnn_\w+)$", symbols, re.M) if KERNEL.fullmatch(name)}


def run(program: Path, hardware: str, kernels: set[str]) -> tuple[set[str], str]:
    """Return those of the kernels that run on a kind of processor, and how the program ended."""
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as script:
        script.write("set pagination off\nset width 0\nset print demangle off\n")
        script.writelines(f"tbreak {kernel}\n" for kernel in sorted(kernels))
        script.write("run\nwhile 1\ncontinue\nend\n")  # until the program has ended, which is an error
        script.flush()
        environment = {**os.environ, "EDGECORE_XNNPACK_HARDWARE": hardware}
        command = ["gdb", "-batch", "-nx", "-x", script.name, program]
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout
    (end,) = re.findall(r"\[Inferior 1 .* (exited .*)\]|(received signal \w+)", output)[:1] or [("did not run", "")]
    return set(re.findall(r"^Temporary breakpoint \d+, .*?\b(xnn_\w+) \(", output, re.M)), end[0] or end[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("sources", type=Path)
    options = parser.parse_args()
    program = options.build / "tests" / "edgecore_xnnpack_kernels"
    named = {name for table in options.sources.glob("src/configs/*.c") for name in KERNEL.findall(table.read_text())}
    kernels = named & contained(program)
    ran: set[str] = set()
    for kind in csv.DictReader(PROCESSORS.read_text().splitlines()):
        of_kind, end = run(program, kind["hardware"], kernels)
        print(f"{kind['name']}: {len(of_kind)} kernels, {end}", flush=True)
        ran |= of_kind
    unused = {kernel for kernel in kernels - ran if any(re.search(pattern, kernel) for pattern in UNUSED.values())}
    missing = sorted(kernels - ran - unused)
    print(f"{len(kernels)} kernels: {len(ran)} ran, {len(unused)} are unused, {len(missing)} are left")
    print("\n".join(missing))
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
