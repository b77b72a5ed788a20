"""Measure edgecore with XNNPACK and its peers on this processor: tables for `processors.md`.

    make bench-processor        or        python benchmarks/processor.py [MODEL ...] [--folder FOLDER] [--rounds 12]

The script describes the processor, and prints the tables of `runtimes.py` for 2 threads and 1 thread, in float32 and in
int8. The files of all runtimes are kept in FOLDER, because it takes most of an hour to make them; the runs take ten
minutes.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import date
from pathlib import Path

import runtimes

FLAGS = ("avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16", "amx_int8")


def processor() -> str:
    """Describe the processor: name, family, model, supported features among FLAGS, number of CPUs, caches, and date."""
    blocks = Path("/proc/cpuinfo").read_text().strip().split("\n\n")
    fields = dict(line.split(":", 1) for line in blocks[0].replace("\t", "").splitlines())
    flags = [flag for flag in FLAGS if flag in fields["flags"].split()]
    caches = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            caches.append(f"L{level} {size}")
    return (
        f"{fields['model name'].strip()} ({fields['vendor_id'].strip()}, family {fields['cpu family'].strip()}, "
        f"model {fields['model'].strip()}: {', '.join(flags)}), {len(blocks)} CPUs, {', '.join(caches)}, "
        f"{date.today().isoformat()}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="default: all, and in int8 " + ", ".join(runtimes.INT8))
    parser.add_argument("--rounds", type=int, default=12, help="blocks of five runs for each runtime")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "edgecore-bench-processor")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print(processor())
    for int8 in (False, True):
        for threads in (2, 1):
            print(f"\n{'int8' if int8 else 'float32'}:\n")
            runtimes.table(arguments.models, int8, threads, arguments.rounds, arguments.folder)


if __name__ == "__main__":
    main()
