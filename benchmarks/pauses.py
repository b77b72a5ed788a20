"""Measure the runs that a median hides: the first after a pause, the slow tenth, and all of them beside a busy CPU.

    python benchmarks/pauses.py [MODEL ...] [--int8] [--busy] [--rounds 40] [--folder FOLDER] [--beside PYTHON]

Each round is a pause of 0.1 s and then five runs, of one runtime of `runtimes.py` after the other, on its files. With
`--busy` a process computes all the time, on any CPU. With `--beside`, the peers are replaced by the edgecore of another
Python interpreter, such as that of an environment with an earlier version.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from check import PAUSE, Worker
from runtimes import RUNTIMES, files

BUSY = "while True: pass"


@contextmanager
def busy_cpu():
    """Keep one CPU busy with a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure(workers: dict[str, Worker], rounds: int) -> dict[str, list[list[float]]]:
    """Return the seconds of each run of each round."""
    times: dict[str, list[list[float]]] = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            time.sleep(PAUSE)
            times[name].append(worker.run_block())
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["mobilenet_v2"])
    parser.add_argument("--int8", action="store_true", help="quantize activations and weights")
    parser.add_argument("--busy", action="store_true", help="keep a CPU busy meanwhile")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--folder", type=Path, help="folder in which the files are kept")
    parser.add_argument("--beside", help="interpreter of the other edgecore")
    arguments = parser.parse_args()
    print("| model | runtime | median | mean | p90 | first after a pause |\n|---|---|---|---|---|---|")
    for model in arguments.models:
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            runtimes = ["edgecore"] if arguments.beside else list(RUNTIMES)
            made = files(model, arguments.folder or Path(name), arguments.int8, runtimes)
            if arguments.busy:
                stack.enter_context(busy_cpu())
            workers = {runtime: Worker(runtime, path, arguments.threads) for runtime, path in made.items()}
            if arguments.beside:
                workers["other"] = Worker("edgecore", made["edgecore"], arguments.threads, arguments.beside)
            times = measure(workers, arguments.rounds)
            for worker in workers.values():
                worker.close()
        for runtime, blocks in times.items():
            runs = sorted(value for block in blocks for value in block)
            numbers = [
                statistics.median(runs),
                statistics.mean(runs),
                runs[int(len(runs) * 0.9)],
                statistics.median(block[0] for block in blocks),
            ]
            print(
                f"| {model} | {runtime} | " + " | ".join(f"{value * 1e3:.2f} ms" for value in numbers) + " |",
                flush=True,
            )


if __name__ == "__main__":
    main()
