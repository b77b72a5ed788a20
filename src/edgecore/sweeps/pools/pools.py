"""Where the steps of a sweep run: on this machine, or wherever another pool takes them."""

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
from edgecore.sweeps.cell import RESULT_OF_PROCESS
from edgecore.sweeps.pools.process import run_contained
from edgecore.sweeps.step import Kind, Step, StepResult


class Pool(Protocol):
    """Where steps run. All methods are called by one thread."""

    @property
    def processor(self) -> str:
        """The processor of the machine that measures times."""

    def width(self, kind: Kind) -> int:
        """Return how many steps of a kind may be submitted before one has ended."""

    def submit(self, step: Step, folder: Path) -> None:
        """Begin a step.

        Args:
            step: The step.
            folder: Folder of this machine for the files that a build makes, or with the file to measure.
        """

    def wait(self) -> list[tuple[Step, StepResult]]:
        """Wait until a submitted step ends, and return those that have ended; their files are in their folders."""

    def cancel(self) -> None:
        """End all steps that still run, and let go of the place; the last call."""


class LocalPool:
    """Processes of this machine: several at the same time, but times are measured alone."""

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
        return [(self.running.pop(one), one.result()) for one in ended]

    def cancel(self) -> None:
        self.stop.set()
        self.threads.shutdown()


def run_step(step: Step, folder: Path, stop: threading.Event | None = None, place: Path | None = None) -> StepResult:
    """Run a step in a process of its own, and return its result, whatever happens to the process.

    Args:
        step: The step.
        folder: Folder for the files that a build makes, or with the file to measure.
        stop: Cancels the process when it is set.
        place: Current folder of the process; by default that of this process.
    """
    start = time.perf_counter()
    request = json.dumps([step.text(), str(folder.resolve()), os.getpid()])
    end = run_contained(request, step.limits.seconds, step.limits.memory_mb, stop, place)
    answer = folder / RESULT_OF_PROCESS
    seconds = time.perf_counter() - start
    if not end.problem:
        try:
            result = StepResult(**json.loads(answer.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return StepResult("failed", "its process ended without a result", seconds)
        answer.unlink()
        return replace(result, seconds=seconds)
    limit = {"seconds": step.limits.seconds, "memory": float(step.limits.memory_mb)}.get(end.by, 0.0)
    last = next((line for line in reversed(end.printed.splitlines()) if line.strip()), "")
    detail = f" (it printed at last: {last.strip()[:200]!r})" if last and not end.by else ""
    return StepResult("failed", f"{end.problem}{detail}", seconds, by=end.by, limit=limit)
