"""Measure how much other installed backend packages slow down a process that needs one backend.

    python benchmarks/discovery.py [--plugins 30] [--rounds 15]

Two kinds of processes alternate. Both find the same backend: the first with only its package on the path, the second with
many packages. Also measures the scan of entry points alone, with warm file caches.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PACKAGE = """
from edgecore.plugin import BackendInfo, hookimpl

@hookimpl
def edgecore_backends():
    return [BackendInfo(name="fake{n}", backend_id="Fake{n}Backend", summary="a fake", compiler="fake{n}:Compiler")]
"""
FIND = """
import sys
sys.path.insert(0, sys.argv[1])
import edgecore
from edgecore.plugin import registry
registry.find("Fake0Backend")
"""
SCAN = """
import sys, time
sys.path.insert(0, sys.argv[1])
from edgecore.plugin.installed import entry_points
entry_points.scan()
best = 1.0
for _ in range(50):
    start = time.perf_counter()
    entry_points.scan()
    best = min(best, time.perf_counter() - start)
print(best)
"""


def install(folder: Path, count: int) -> Path:
    """Write `count` packages into a new folder, with the same files as pip installs."""
    folder.mkdir()
    for n in range(count):
        info = folder / f"edgecore_fake{n}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: edgecore-fake{n}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[edgecore.backends]\nFake{n}Backend = fake{n}\n")
        (folder / f"fake{n}.py").write_text(PACKAGE.format(n=n))
    return folder


def seconds(folder: Path) -> float:
    """Measure a process that finds one backend, from its start to its end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", FIND, str(folder)], check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plugins", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        single = install(Path(name) / "one", 1)
        many = install(Path(name) / "many", arguments.plugins)
        for folder in (single, many):
            seconds(folder)  # writes bytecode and fills the file caches
        pairs = [(seconds(single), seconds(many)) for _ in range(arguments.rounds)]
        added = statistics.median(with_many - with_one for with_one, with_many in pairs)
        scans = [
            float(subprocess.run([sys.executable, "-c", SCAN, str(folder)], capture_output=True, check=True).stdout)
            for folder in (single, many)
        ]
    alone = statistics.median(with_one for with_one, _ in pairs)
    print(f"process that finds a backend, one package: {1e3 * alone:.1f} ms")
    print(f"{arguments.plugins - 1} packages more add {1e3 * added:.1f} ms (median of {arguments.rounds} pairs)")
    print(f"scan alone: {1e3 * scans[0]:.2f} ms with one package, {1e3 * scans[1]:.2f} ms with {arguments.plugins}")


if __name__ == "__main__":
    main()
