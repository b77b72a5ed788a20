"""Measure latency, lowering and start of a process, beside executorch and the limits that edgecore promises.

    make bench        or        python benchmarks/check.py [MODEL ...] [--rounds 30]

Latency: each runtime has one process, and the processes alternate in blocks of five runs. The ratio is the ratio of the
medians. Lowering: both compilers start from the same `torch.export` result. Each compiles twice, and the smaller time
counts. Start: the time from the start of a process until its end, and the peak memory of this process, which runs a
small model without torch and numpy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import edgecore

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
from zoo import make

RUNS_PER_BLOCK = 5
PAUSE = 0.1
"""Seconds of rest before a block: after a block, threads of a runtime may spin and slow down the next runtime."""


class Worker:
    """A child process (worker.py) of a Python interpreter, with one loaded program of one runtime."""

    def __init__(self, runtime: str, path: Path | str, threads: int, python: str = sys.executable) -> None:
        command = [python, str(HERE / "worker.py"), runtime, str(path), str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        while (line := self._read()) != "ready":
            print(line, file=sys.stderr)

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a benchmark worker ended with status {self.process.wait()}")
        return line.strip()

    def run_block(self) -> list[float]:
        """Run the program `RUNS_PER_BLOCK` times. Return the seconds of each run."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{RUNS_PER_BLOCK}\n")
        self.process.stdin.flush()
        return json.loads(self._read())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def latency(files: dict[str, Path | str], threads: int, rounds: int) -> dict[str, float]:
    """Measure the median seconds of a run in each runtime.

    Args:
        files: Name of the runtime -> its file; for the runtime `eager`, the name of a model (see worker.py).
        threads: Number of threads.
        rounds: Number of blocks for each runtime.
    """
    return alternate({runtime: Worker(runtime, path, threads) for runtime, path in files.items()}, rounds)


def alternate(workers: dict[str, Worker], rounds: int) -> dict[str, float]:
    """Run blocks of the workers alternately, and close them. Return the median seconds of a run of each."""
    times: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            time.sleep(PAUSE)
            times[name] += worker.run_block()
    for worker in workers.values():
        worker.close()
    return {name: statistics.median(values) for name, values in times.items()}


def clock(function):
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def lower(name: str, folder: Path) -> tuple[dict[str, Path | str], dict[str, float]]:
    """Compile a model with edgecore and executorch. Return the files, and the seconds without `torch.export`."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    model, inputs = make(name)
    edge, peer = folder / f"{name}.edgecore.pte", folder / f"{name}.executorch.pte"
    files: dict[str, Path | str] = {"edgecore": edge, "executorch": peer}
    seconds = dict.fromkeys(files, float("inf"))
    for _ in range(2):
        exported = torch.export.export(model, inputs)
        program, spent = clock(lambda: edgecore.compile(exported, backends=["xnnpack"]))
        seconds["edgecore"] = min(seconds["edgecore"], spent)
        program.save(edge)
        binary, spent = clock(
            lambda: to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
        )
        seconds["executorch"] = min(seconds["executorch"], spent)
        peer.write_bytes(binary.buffer)
    return files, seconds


START = """
import sys
import edgecore
model = edgecore.load(sys.argv[1])
model.forward(memoryview(bytes(4 * 64)).cast("f", [1, 1, 8, 8]))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) / 1024)
"""


def start(folder: Path) -> tuple[float, float]:
    """Measure a process that runs a small model: median seconds from its start to its end, and peak memory in MiB."""
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(576, 10))
    path = folder / "small.pte"
    edgecore.compile(net.eval(), (torch.randn(1, 1, 8, 8),), backends=["xnnpack"]).save(path)
    times, memory = [], 0.0
    for _ in range(9):
        command = [sys.executable, "-c", START, str(path)]
        done, spent = clock(lambda: subprocess.run(command, capture_output=True, text=True, check=True))
        times.append(spent)
        memory = float(done.stdout)
    return statistics.median(times), memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["mobilenet_v2"])
    parser.add_argument("--rounds", type=int, default=30, help="blocks of five runs for each runtime")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds, megabytes = start(folder)
        print(
            f"start to result, small model: {seconds:.3f} s (at most 0.15), {megabytes:.1f} MB (at most 40)", flush=True
        )
        for model in arguments.models:
            files, lowering = lower(model, folder)
            ratio = lowering["edgecore"] / lowering["executorch"]
            print(
                f"{model}: lowering {lowering['edgecore']:.2f} s, executorch {lowering['executorch']:.2f} s, "
                f"ratio {ratio:.3f} (at most 0.1)",
                flush=True,
            )
            for threads in (1, 2):
                median = latency(files, threads, arguments.rounds)
                print(
                    f"{model}: {threads} thread{'s' * (threads > 1)}: {median['edgecore'] * 1e3:.2f} ms, executorch "
                    f"{median['executorch'] * 1e3:.2f} ms, ratio {median['edgecore'] / median['executorch']:.3f} "
                    "(at most 1.05)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
