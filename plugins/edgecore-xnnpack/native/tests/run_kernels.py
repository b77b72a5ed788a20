"""Test XNNPACK's kernels for each listed kind of processor: the kernels that XNNPACK selects on that processor.

``python run_kernels.py BUILD [--full] [--row] [FAMILY ...]``, where BUILD is a build folder of ``native/``, configured
with ``-DEDGECORE_XNNPACK_TESTS=ON``. Each row of ``processors.csv`` is a kind of processor: a name and the features by
which XNNPACK selects its kernels. A kind with features that this processor (or the emulated XNNPACK) lacks is printed
as NOT RUN. ``--row`` prints a row for ``benchmarks/processors.md``. The exit status is 1 if a result was wrong.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path

PROCESSORS = Path(__file__).parents[2] / "src" / "edgecore_xnnpack" / "processors.csv"
NOT_RUN = 77


@dataclass(frozen=True)
class Result:
    """Result of the kernel tests with the features of one row of `processors.csv`: exit status, output and duration."""

    name: str
    hardware: str
    status: int
    lines: list[str]
    seconds: float

    def __str__(self) -> str:
        if self.status == NOT_RUN:
            return f"NOT RUN  {self.name}: {self.lines[-1] if self.lines else ''}"
        cases = sum(int(match[1]) for line in self.lines if (match := re.match(r"  (\d+) right", line)))
        families = sum(not line.startswith(" ") for line in self.lines)
        unsupported = sum("no kernels" in line for line in self.lines)
        text = f"{families} families, {unsupported} of them without kernels, {cases} cases, {self.seconds:.0f} s"
        if self.status == 0:
            return f"right    {self.name}: {text}"
        ended = f"; ended by signal {-self.status} in '{self.lines[-1]}'" if self.status < 0 and self.lines else ""
        wrong = [f"  {a}:{b}" for a, b in zip(self.lines, self.lines[1:]) if "WRONG" in b]
        repeat = f"  to repeat: EDGECORE_XNNPACK_HARDWARE={self.hardware} edgecore_xnnpack_kernels"
        return "\n".join([f"WRONG    {self.name}: {text}{ended}", *wrong, repeat])


def run(program: Path, name: str, hardware: str, arguments: list[str]) -> Result:
    """Run the program of the kernel tests with XNNPACK restricted to the processor features `hardware`."""
    start = time.monotonic()
    environment = {**os.environ, "EDGECORE_XNNPACK_HARDWARE": hardware}
    process = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)
    lines = (process.stdout + process.stderr).splitlines()
    return Result(name, hardware, process.returncode, lines, time.monotonic() - start)


def processor() -> tuple[str, set[str]]:
    """Return a description of this processor (name, vendor, family, model), and its flags as Linux names them."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    name = f"{fields.get('model name', '?')} ({fields.get('vendor_id', '?')}"
    name += f", family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"
    return name, set(fields.get("flags", "").split())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--full", action="store_true", help="run every shape, which takes minutes for each kind")
    parser.add_argument("--row", action="store_true", help="print a row for benchmarks/processors.md")
    parser.add_argument("families", nargs="*", help="run only families whose name contains FAMILY")
    options = parser.parse_args()
    program = options.build / "tests" / "edgecore_xnnpack_kernels"
    hardware = subprocess.run([program, "--hardware"], capture_output=True, text=True, check=True).stdout.strip()
    name, flags = processor()
    is_emulated = "avx512" in hardware and "avx512f" not in flags
    print(f"processor: {name}")
    print(f"kernels:   {hardware or 'SSE2 only'}{', emulated' if is_emulated else ''}")

    kinds = list(csv.DictReader(PROCESSORS.read_text().splitlines()))
    arguments = [*(["--full"] if options.full else []), *options.families]
    results = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for result in pool.map(lambda kind: run(program, kind["name"], kind["hardware"], arguments), kinds):
            print(result, flush=True)
            results.append(result)
    if options.row:
        ran = ", ".join(
            f"{result.name}{'' if result.status == 0 else ' WRONG'}" for result in results if result.status != NOT_RUN
        )
        not_run = ", ".join(result.name for result in results if result.status == NOT_RUN)
        extent = "all shapes" if options.full else "some shapes"
        features = f"{hardware}{', emulated' if is_emulated else ''}"
        print(f"| {name} | {features} | {extent} | {ran} | {not_run} | {date.today()} |")
    return int(any(result.status not in (0, NOT_RUN) for result in results))


if __name__ == "__main__":
    sys.exit(main())
