"""Pools, which run the steps of a sweep: on this machine, or on a cluster (`ray_pool.py`)."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from edgecore.devtools.track import processor
from edgecore.plugin.installed.entry_points import searched
from edgecore.processes.command import exit_text, last_line, run_command
from edgecore.processes.worker import request_line, worker_command
from edgecore.sweeps.step import Kind, Step, StepResult

_KEPT_BYTES = 16 << 10
"""Number of bytes at the end of a process's stderr that are kept."""


class Pool(Protocol):
    """Runs the steps of a sweep (compilations and measurements). Only one thread calls its methods."""

    @property
    def processor(self) -> str:
        """The processor of the machine that measures times."""

    def width(self, kind: Kind) -> int:
        """Return the maximum number of steps of a kind ("build" or "time") that may run at the same time."""

    def submit(self, step: Step, folder: Path) -> None:
        """Begin a step: a compilation or a measurement.

        Args:
            step: The step.
            folder: Folder on this machine. A compilation writes its files there; a measurement finds the file there.
        """

    def wait(self) -> list[tuple[Step, StepResult]]:
        """Wait until a submitted step ends, and return all steps that have ended; their files are in their folders."""

    def cancel(self) -> None:
        """Stop all running steps, and release the machines. No method is called afterwards."""


class LocalPool:
    """Runs steps in processes of this machine: several compilations at the same time, but only one measurement."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.stop = threading.Event()
        self.threads = ThreadPoolExecutor(jobs)
        self.running: dict[Future[StepResult], Step] = {}

    @property
    def processor(self) -> str:
        return processor()

    def width(self, kind: Kind) -> int:
        return 1 if kind == "time" else self.jobs

    def submit(self, step: Step, folder: Path) -> None:
        self.running[self.threads.submit(run_step, step, folder, self.stop)] = step

    def wait(self) -> list[tuple[Step, StepResult]]:
        ended = wait(self.running, return_when=FIRST_COMPLETED).done
        return [(self.running.pop(future), future.result()) for future in ended]

    def cancel(self) -> None:
        self.stop.set()
        self.threads.shutdown()


def run_step(step: Step, folder: Path, stop: threading.Event | None = None, place: Path | None = None) -> StepResult:
    """Run a step in a process of its own, and return its result, even if the process crashes or exceeds a limit.

    Args:
        step: The step.
        folder: Folder into which a compilation writes its files, or that contains the file to measure.
        stop: Cancels the process when it is set.
        place: Current folder of the new process; by default the current folder of this process.
    """
    start = time.perf_counter()
    done = run_command(
        worker_command("edgecore.sweeps.cell:main", searched()),
        seconds=step.limits.seconds,
        memory_mb=step.limits.memory_mb,
        stop=stop,
        stdin=[request_line([step.text(), str(folder.resolve()), os.getpid()])],
        err_bytes=_KEPT_BYTES,
        folder=place,
    )
    seconds = time.perf_counter() - start
    if done.stopped == "memory":
        limit = step.limits.memory_mb
        problem = f"it needs more memory than the limit of {limit:,} MiB"
        return StepResult("failed", problem, seconds, by="memory", limit=float(limit))
    if done.stopped == "seconds":
        problem = f"it does not end within the limit of {step.limits.seconds:g} s"
        return StepResult("failed", problem, seconds, by="seconds", limit=step.limits.seconds)
    last = last_line(done.err)[:200]
    detail = f" (it printed at last: {last!r})" if last else ""
    if done.stopped or done.status:
        problem = "it was cancelled" if done.stopped else f"its process ended with {exit_text(done.status)}"
        return StepResult("failed", f"{problem}{detail}", seconds)
    try:
        return replace(StepResult(**json.loads(done.out)), seconds=seconds)
    except (ValueError, TypeError):
        return StepResult("failed", "its process ended without a result", seconds)
