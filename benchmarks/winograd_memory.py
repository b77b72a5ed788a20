"""Measure what edgecore-xnnpack's load option `winograd` costs: memory, packing time, and files of packed weights.

    python benchmarks/winograd_memory.py [MODEL ...] [--rounds 3]      MODEL: a convolutional network of tests/zoo.py

Each load is a process of its own that runs the network once, with one thread; the values of the option take turns. The
times are the smallest CPU times of `edgecore.load` in all rounds: "packing" without a folder of packed weights, "first"
with an empty one, "kept" with the one that "first" filled. "weights" are the bytes of this folder: all packed weights of
the network. "resident" and "peak" are the smallest that a process without a folder takes beyond its imports: its
anonymous and mapped pages after the run, and `VmHWM`. Exit status 1 if a ratio is above `BOUNDS`.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import edgecore
from edgecore_xnnpack import native_library

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from zoo import make

VALUES = ("off", "accurate", "on")
MIB = 2**20
ROWS = {
    "weights": (1 / MIB, "MiB"), "resident": (1 / MIB, "MiB"), "peak": (1 / MIB, "MiB"),
    "packing": (1e3, "ms"), "first": (1e3, "ms"), "kept": (1e3, "ms"),
}  # fmt: skip
BOUNDS = {
    ("resnet18", "weights"): 2.2, ("resnet50", "weights"): 1.7, ("resnet50", "packing"): 1.5,
    ("resnet50", "first"): 1.5, ("resnet50", "kept"): 1.1,
}  # fmt: skip
"""Largest ratio of `on` to `off`."""

# Prints the CPU time of a load in seconds, and the memory that the process has after a run, and had at most, in bytes.
CHILD = """
import json, sys, time
import numpy
import edgecore
def memory(*names):
    lines = open("/proc/self/status").read().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))
path, options, shapes = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
before = memory("RssAnon", "RssFile")
begin = time.process_time()
method = edgecore.load(path, threads=1, options={"xnnpack": options})["forward"]
seconds = time.process_time() - begin
method(*(numpy.ones(shape, numpy.float32) for shape in shapes))
print(json.dumps([seconds, memory("RssAnon", "RssFile") - before, memory("VmHWM") - before]))
"""


def sizes(inputs: tuple[Any, ...]) -> str:
    """The shape of each input."""
    return json.dumps([list(one.shape) for one in inputs])


def load(path: Path, value: str, folder: Path | None, shapes: str) -> dict[str, float]:
    """What a load in a new process takes."""
    options = {"winograd": value} | ({"weight_cache_folder": str(folder)} if folder else {})
    command = [sys.executable, "-c", CHILD, str(path), json.dumps(options), shapes]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip(("seconds", "resident", "peak"), json.loads(done.stdout), strict=True))


def measure(path: Path, shapes: str, rounds: int) -> dict[str, list[float]]:
    """Each row of the table, with a number for each of `VALUES`: seconds or bytes."""
    rows: dict[str, list[float]] = {name: [math.inf] * len(VALUES) for name in ROWS}
    for _ in range(rounds):
        for i, value in enumerate(VALUES):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                packed, first, kept = (load(path, value, at, shapes) for at in (None, folder, folder))
                rows["weights"][i] = sum(file.stat().st_size for file in folder.glob("*.packed"))
            for row, taken in (("packing", packed), ("first", first), ("kept", kept)):
                rows[row][i] = min(rows[row][i], taken["seconds"])
            for row in ("resident", "peak"):
                rows[row][i] = min(rows[row][i], packed[row])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["resnet18", "resnet50", "unet", "squeezenet1_0"])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    library = Path(native_library())
    print(f"{library.name}: {library.stat().st_size / MIB:.1f} MiB\n")
    print("| model | | `off` | `accurate` | `on` | ratio |\n|---|---|---|---|---|---|")
    broken = []
    for name in arguments.models:
        model, inputs = make(name)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.pte"
            edgecore.compile(model, inputs, backends=["xnnpack"]).save(path)
            rows = measure(path, sizes(inputs), arguments.rounds)
        for row, numbers in rows.items():
            scale, unit = ROWS[row]
            shown = " | ".join(f"{number * scale:.1f} {unit}" for number in numbers)
            ratio = numbers[-1] / numbers[0]
            print(f"| {name} | {row} | {shown} | {numbers[1] / numbers[0]:.2f}, {ratio:.2f} |", flush=True)
            if ratio > BOUNDS.get((name, row), math.inf):
                broken.append(f"{row} of {name}")
    if broken:
        raise SystemExit(f"too large: {', '.join(broken)}")


if __name__ == "__main__":
    main()
