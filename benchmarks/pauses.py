"""Measure the runs that a median hides: the first after a pause, the slow tenth, and all of them beside a busy CPU.

    python benchmarks/pauses.py [MODEL ...] [--int8] [--busy] [--rounds 40] [--folder FOLDER] [--beside PYTHON]

Each round is a pause of 0.1 s and then five runs, of one runtime of `runtimes.py` after the other, on its files. With
`--busy` each round is repeated while another process computes, on any CPU. With `--beside`, the peers are replaced by the
edgecore of another Python interpreter, such as that of an environment with an earlier version.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from check import PAUSE, Worker
from runtimes import RUNTIMES, files

BUSY = "while True: pass"

Load = Callable[[], AbstractContextManager[None]]


@contextmanager
def busy_cpu():
    """Keep one CPU busy with a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure(
    workers: dict[str, Worker], rounds: int, loads: dict[str, Load]
) -> dict[tuple[str, str], list[list[float]]]:
    """Return the seconds of each run of each round, by load and runtime."""
    times: dict[tuple[str, str], list[list[float]]] = {(load, name): [] for load in loads for name in workers}
    for _ in range(rounds):
        for load, begin in loads.items():
            with begin():
                for name, worker in workers.items():
                    time.sleep(PAUSE)
                    times[load, name].append(worker.run_block())
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["mobilenet_v2"])
    parser.add_argument("--int8", action="store_true", help="quantize activations and weights")
    parser.add_argument("--busy", action="store_true", help="measure also beside a busy CPU")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--folder", type=Path, help="folder in which the files are kept")
    parser.add_argument("--beside", help="interpreter of the other edgecore")
    arguments = parser.parse_args()
    loads: dict[str, Load] = {"quiet": nullcontext}
    if arguments.busy:
        loads["busy"] = busy_cpu
    print("| model | runtime | CPU | median | mean | p90 | first after a pause |\n|---|---|---|---|---|---|---|")
    for model in arguments.models:
        with tempfile.TemporaryDirectory() as name:
            runtimes = ["edgecore"] if arguments.beside else list(RUNTIMES)
            made = files(model, arguments.folder or Path(name), arguments.int8, runtimes)
            workers = {runtime: Worker(runtime, path, arguments.threads) for runtime, path in made.items()}
            if arguments.beside:
                workers["other"] = Worker("edgecore", made["edgecore"], arguments.threads, arguments.beside)
            times = measure(workers, arguments.rounds, loads)
            for worker in workers.values():
                worker.close()
        for (load, runtime), blocks in times.items():
            runs = sorted(value for block in blocks for value in block)
            numbers = [
                statistics.median(runs),
                statistics.mean(runs),
                runs[int(len(runs) * 0.9)],
                statistics.median(block[0] for block in blocks),
            ]
            shown = " | ".join(f"{value * 1e3:.2f} ms" for value in numbers)
            print(f"| {model} | {runtime} | {load} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
