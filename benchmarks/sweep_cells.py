"""Measure what a sweep adds to its processes: cells that do nothing, here or on a Ray cluster, and memory by their count.

    python benchmarks/sweep_cells.py [--cells 200 2000] [--ray HOST:PORT] [--jobs 2]

The cells' processes end as soon as Python has started: a `sitecustomize.py`, on whose path they are started, writes their
result. So start the nodes of a cluster with PYTHONPATH=build/empty_cells, which this script makes. The baseline is the
same number of the same processes by `subprocess.run` in as many threads. Each count is a process of its own, whose peak
memory counts; on a cluster, also the resident memory of Ray's workers and of the connection to it, when half of the
cells have ended and when the last one has.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

EMPTY = Path(__file__).resolve().parents[1] / "build" / "empty_cells"
HOOK = """
import sys
if len(sys.orig_argv) > 3 and sys.orig_argv[1] == "-c" and "sweeps.cell import main" in sys.orig_argv[2]:
    import json, os
    folder = json.loads(sys.orig_argv[3])[1]
    with open(os.path.join(folder, "step.json"), "w") as file:
        file.write('{"status": "ok"}')
    os._exit(0)
"""


def measure(cells: int, ray: str | None, jobs: int) -> dict[str, float]:
    import edgecore
    from edgecore.sweeps.pools.process import _CHILD as code

    request = json.dumps(["", tempfile.mkdtemp()])
    command = [sys.executable, "-c", code, request, *sys.path]
    start = time.perf_counter()
    with ThreadPoolExecutor(jobs) as threads:
        list(threads.map(lambda _: subprocess.run(command, check=True), range(cells)))
    processes = time.perf_counter() - start
    models = {f"m{number}": {"source": f"nothing:m{number}"} for number in range(cells)}
    options = {"models": models, "backends": ["kernels"], "runs": 0, "limits": {"memory_mb": 100}}
    memory = Memory(cells)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        done = edgecore.sweep(options, folder, ray=ray, jobs=jobs, listener=memory)
        seconds = time.perf_counter() - start
    assert done.ok and len(done.rows) == cells
    return {
        "cells": cells, "process_ms": 1000 * processes / cells, "cell_ms": 1000 * seconds / cells,
        "added_ms": 1000 * (seconds - processes) / cells, "ratio": seconds / processes,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "cluster_mb": memory.seen,
    }  # fmt: skip


class Memory:
    """A listener that measures the processes of the cluster in the middle and at the end."""

    def __init__(self, cells: int) -> None:
        self.ended_cells, self.cells = 0, cells
        self.seen: list[float] = []

    def planned(self, *_: object) -> None: ...
    def begun(self, *_: object) -> None: ...

    def ended(self, *_: object) -> None:
        self.ended_cells += 1
        if self.ended_cells in (self.cells // 2, self.cells):
            self.seen.append(cluster_memory())


def cluster_memory() -> float:
    """Return the resident MiB of Ray's workers and of the processes that are connected to the cluster."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if command.startswith(b"ray::") or b"sweeps.ray_driver" in command:
                total += int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            continue
    return total / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="+", default=[200, 2000])
    parser.add_argument("--ray", metavar="HOST:PORT")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.ray, arguments.jobs)))
        return
    EMPTY.mkdir(parents=True, exist_ok=True)
    (EMPTY / "sitecustomize.py").write_text(HOOK)
    environment = {**os.environ, "PYTHONPATH": str(EMPTY)}
    for cells in arguments.cells:
        command = [sys.executable, __file__, "--one", str(cells), "--jobs", str(arguments.jobs)]
        command += ["--ray", arguments.ray] if arguments.ray else []
        print(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout, end="")


if __name__ == "__main__":
    main()
