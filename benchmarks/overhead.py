"""Measure the overhead of a call from Python, the cost of traces, and how much a running method slows other threads.

    python benchmarks/overhead.py [--rounds 15] [--file MODEL.pte]

Call: a program of three instructions on four numbers is called with numpy arrays, torch tensors and a plain buffer; if
executorch is installed, executorch runs the same file. The result is the smallest mean of a block of 5000 calls.

Traces: a chain of 64 kernels on four numbers runs with and without a trace. The results are the cost of an event, and
the slow-down that remains after the trace has stopped. With `--file` the results are also measured for a file, in per
cent of a run, with the time to read 65,000 events.

Other threads: the results are the speed of a Python loop, and of a second method of the program, while a method runs in
another thread, and for comparison while another process runs the method. The other process shares nothing with this
one, so its slow-down comes from the machine (two virtual cores may be one physical core).
"""

from __future__ import annotations

import argparse
import array
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import edgecore

PAUSE = 0.02  # seconds between measurements, in which the scheduler settles


class Small(torch.nn.Module):
    """A model that runs three kernels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2 + 1)


class Large(torch.nn.Module):
    """A model that computes matmuls for a few milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def mean_of_blocks(call: Callable[[], object], rounds: int, block: int = 5000) -> float:
    """Return seconds per call: the smallest mean of `rounds` blocks."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(block):
            call()
        best = min(best, (time.perf_counter() - start) / block)
    return best


def overhead(folder: Path, rounds: int) -> None:
    """Print microseconds per call for each kind of input."""
    path = folder / "small.pte"
    edgecore.compile(Small().eval(), (torch.ones(4),), backends=[]).save(path)
    method = edgecore.load(path, threads=1).forward
    arguments = {"numpy": np.ones(4, np.float32), "torch": torch.ones(4), "buffer": array.array("f", [1, 1, 1, 1])}
    print("call of a three-instruction program:")
    for kind, x in arguments.items():
        print(f"  edgecore, {kind:6}  {mean_of_blocks(lambda x=x: method(x), rounds) * 1e6:7.2f} us")
    out = np.empty(4, np.float32)
    print(f"  edgecore, out=    {mean_of_blocks(lambda: method(arguments['numpy'], out=[out]), rounds) * 1e6:7.2f} us")
    try:
        from executorch.runtime import Runtime
    except ImportError:
        return
    peer = Runtime.get().load_program(str(path)).load_method("forward")
    inputs = [arguments["torch"]]
    print(f"  executorch, torch {mean_of_blocks(lambda: peer.execute(inputs), rounds, 500) * 1e6:7.2f} us")


class Chain(torch.nn.Module):
    """A model that runs 64 kernels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(32):
            x = torch.relu(x) + 1
        return x


def traces(folder: Path, rounds: int) -> None:
    """Print the time that a trace costs per event, and the slow-down that remains after the trace has stopped."""
    path = folder / "chain.pte"
    edgecore.compile(Chain().eval(), (torch.ones(4),), backends=[]).save(path)
    x = np.ones(4, np.float32)
    untraced, model = (edgecore.load(path, threads=1) for _ in range(2))
    times: dict[str, list[float]] = {"off": [], "calls": [], "operators": [], "threads": [], "stopped": []}
    model.trace.start("calls")
    model.forward(x)
    events = {"calls": model.trace.events}
    model.trace.clear()
    model.trace.start()
    model.forward(x)
    events["operators"] = events["threads"] = model.trace.events
    for _ in range(rounds):  # run all kinds in turn, so that a change of the machine's speed affects all of them
        for kind, found in times.items():
            model.trace.stop()
            model.trace.clear()
            if kind in events:
                model.trace.start(kind)
            method = untraced.forward if kind == "off" else model.forward
            found.append(mean_of_blocks(lambda method=method: method(x), 1, 1000))
    best = {kind: min(found) for kind, found in times.items()}
    print(f"traces, in a call of {best['off'] * 1e6:.2f} us:")
    for kind, count in events.items():
        print(f"  {kind:10} {(best[kind] - best['stopped']) / count * 1e9:6.1f} ns an event, {count} events")
    print(
        f"  stopped    {100 * (best['stopped'] / best['off'] - 1):6.2f} % slower than a program that was never traced"
    )


def traces_of(path: Path, rounds: int) -> None:
    """Print how much slower a file runs while it is traced and after that, and how long 65,000 events take to read."""
    from edgecore.devtools import Trace

    untraced, traced = (edgecore.load(path, threads=1, trace=kind) for kind in (False, True))
    inputs = [torch.randn([dim.max for dim in one.dims]) for one in untraced.forward.inputs]
    ratios: dict[str, list[float]] = {"operators": [], "stopped": []}
    for _ in range(rounds):
        for kind, found in ratios.items():
            traced.trace.clear()
            traced.trace.start() if kind == "operators" else traced.trace.stop()
            times: list[list[float]] = [[], []]
            for turn in range(40):  # run both programs in turn, so that a change of the machine's speed affects both
                for index in (turn % 2, 1 - turn % 2):
                    start = time.perf_counter()
                    (untraced, traced)[index].forward(*inputs)
                    times[index].append(time.perf_counter() - start)
            found.append(statistics.median(times[1]) / statistics.median(times[0]))
    print(f"traces of {path.name}, one thread, compared with a program that was never traced:")
    for kind, found in ratios.items():
        print(
            f"  {kind:10} {100 * (statistics.median(found) - 1):6.2f} % slower (medians of {rounds} rounds of 40 runs)"
        )
    traced.trace.start()
    while traced.trace.events < 65_000:
        traced.forward(*inputs)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "runs.etdp"
        traced.write_trace(trace)
        start = time.perf_counter()
        read = Trace.read(trace, program=path)
        seconds = time.perf_counter() - start
        count = sum(len(run.events) for run in read.runs)
        print(f"  {count} events: {trace.stat().st_size / count:.1f} bytes each, read in {seconds:.3f} s")


def spin(seconds: float) -> float:
    """Run a Python loop for some seconds. Return its iterations per second."""
    count = 0
    start = time.perf_counter()
    end = start + seconds
    while time.perf_counter() < end:
        for _ in range(200):
            count += 1
    return count / (time.perf_counter() - start)


def calls_a_second(call: Callable[[], object], seconds: float) -> float:
    """Repeat `call` for some seconds. Return the calls per second."""
    count = 0
    start = time.perf_counter()
    end = start + seconds
    while time.perf_counter() < end:
        call()
        count += 1
    return count / (time.perf_counter() - start)


def beside(work: Callable[[], object], measured: Callable[[], float]) -> float:
    """Return the result of `measured` while another thread repeats `work`."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            work()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        return measured()
    finally:
        stop.set()
        thread.join()


def beside_process(path: Path, measured: Callable[[], float]) -> float:
    """Return the result of `measured` while another process runs the program at `path` repeatedly."""
    code = (
        "import sys, edgecore, array; m = edgecore.load(sys.argv[1], threads=1)['first']; x = array.array('f', [1] * "
        "m.inputs[0].shape[0] * m.inputs[0].shape[1]); m(x); print(flush=True)\nwhile True: m(x)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        return measured()
    finally:
        process.kill()
        process.wait()


def threads(folder: Path, rounds: int) -> None:
    """Print the speed of a Python loop, and of a second method, while a method runs in another thread."""
    path = folder / "large.pte"
    x = torch.ones(64, 512)
    exported = torch.export.export(Large().eval(), (x,))
    edgecore.compile({"first": exported, "second": exported}, backends=[]).save(path)
    model = edgecore.load(path, threads=1)
    values = np.ones((64, 512), np.float32)
    first, second = (lambda: model["first"](values)), (lambda: model["second"](values))
    first(), second()
    measures: dict[str, tuple[Callable[[], float], Callable[[], object]]] = {
        "a Python loop": (lambda: spin(0.2), first),
        "a second method": (lambda: calls_a_second(second, 0.2), first),
    }
    print(f"while a method runs on one thread ({mean_of_blocks(first, 3, 20) * 1e3:.1f} ms per call); 1 is full speed:")
    for name, (measured, work) in measures.items():
        ratios: dict[str, list[float]] = {"thread": [], "process": []}
        for _ in range(rounds):
            time.sleep(PAUSE)
            alone = measured()
            shared = beside(work, measured)
            apart = beside_process(path, measured)
            alone = max(alone, measured())
            ratios["thread"].append(shared / alone)
            ratios["process"].append(apart / alone)
        of_thread, of_process = (statistics.median(ratios[kind]) for kind in ("thread", "process"))
        print(
            f"  speed of {name:16} {of_thread:.3f}; while a process runs the method {of_process:.3f}; "
            f"ratio {of_thread / of_process:.3f}"
        )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--file", type=Path, help="a file whose runs are traced as well")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        overhead(Path(folder), rounds)
        traces(Path(folder), rounds)
        if arguments.file:
            traces_of(arguments.file, rounds)
        threads(Path(folder), rounds)


if __name__ == "__main__":
    main()
