"""`edgecore.sweep`: compute the cells of a plan, those that are known from the store, the others in processes."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from edgecore.errors import EdgecoreError
from edgecore.sweeps.cell import RESULT_OF_PROCESS
from edgecore.sweeps.plan import Cell, SweepPlan, make_plan
from edgecore.sweeps.process import run_contained
from edgecore.sweeps.result import RESULTS, CellResult, SweepResult, read_results
from edgecore.sweeps.store import FILE, REPORT, Step, StepResult, Store, build_step, time_step


class Listener(Protocol):
    """Methods that tell a display of a sweep. All are called by the thread that called `sweep`."""

    def planned(self, plan: SweepPlan, known: int, seconds: float, unknown: int) -> None:
        """Get the plan, the number of cells that are known, and the estimated time of the others."""

    def begun(self, step: Step) -> None:
        """Get a step that begins."""

    def ended(self, step: Step, result: StepResult, left: int) -> None:
        """Get a step that has ended, and the number of steps that are left."""


def sweep(
    source: str | Path | Mapping[str, Any],
    output: str | Path | None = None,
    *,
    jobs: int | None = None,
    fresh: bool = False,
    retry: bool = False,
    listener: Listener | None = None,
) -> SweepResult:
    """Compile, verify, compare and measure each cell of a sweep; needs the extra `edgecore[compile]`.

    Each cell is a process with limits, whose failure is a row of the table. First `jobs` files are made side by side,
    then times are measured one after the other. Results are kept in `output`: a sweep that was interrupted goes on, and
    a cell is computed again only if its model, the files that it has read, its options or the packages have changed.

    Args:
        source: Path of a `sweep.toml`, or its content as a mapping.
        output: Folder for the results; by default the name of the file without `.toml`, or `sweep`.
        jobs: Number of files that are made side by side; by default the number of processors.
        fresh: Compute all cells again.
        retry: Compute the cells again that have failed.
        listener: Gets the plan and the progress.

    Returns:
        The results, which are also in `output`: `results.jsonl`, `results.csv`, `index.html`.

    Raises:
        EdgecoreError: The options are wrong, another sweep writes into the folder.

    Example:
        >>> edgecore.sweep({"models": ["net.pt2"], "backends": ["xnnpack"], "recipes": ["float", "int8-dynamic"]})
    """
    if jobs is not None and jobs < 1:
        raise EdgecoreError(f"jobs must be at least 1; got {jobs}")
    plan = make_plan(source)
    default = "sweep" if isinstance(source, Mapping) else Path(source).stem
    folder = Path(default if output is None else output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EdgecoreError(f"cannot write into {folder}: {error.strerror}; choose another folder") from error
    with _alone(folder):
        return _sweep(plan, folder, jobs or os.cpu_count() or 1, fresh, retry, listener)


def _sweep(
    plan: SweepPlan, folder: Path, jobs: int, fresh: bool, retry: bool, listener: Listener | None
) -> SweepResult:
    store = Store(folder / "cells")
    store.clean()
    pool = LocalPool(jobs)
    results: dict[Step, StepResult] = {}
    computed: set[Step] = set()
    builds = list(dict.fromkeys(build_step(cell, plan.limits) for cell in plan.cells))

    def find(steps: Sequence[Step]) -> list[Step]:
        """Take the results of steps from the store, and return the steps without any."""
        for step in steps:
            found = None if fresh else store.find(step)
            if found is not None and (found.status == "ok" or not retry):
                results[step] = found
        return [step for step in steps if step not in results]

    missing = find(builds)
    times = [time_step(cell, plan.limits) for cell in plan.cells if cell.runs]
    known_times = [step for step in times if build_step_of(step) in results]
    find(known_times)
    if listener is not None:
        left = [cell for cell in plan.cells if not _is_known(cell, plan, results)]
        history = read_results(folder) if (folder / RESULTS).is_file() else []
        seconds, unknown = SweepPlan(tuple(left), plan.limits).estimate(history, jobs)
        listener.planned(plan, len(plan.cells) - len(left), seconds, unknown)

    def run(steps: Sequence[Step], later: int) -> None:
        left = len(steps) + later

        def ended(step: Step, result: StepResult) -> None:
            nonlocal left
            left -= 1
            results[step] = result
            computed.add(step)
            if listener is not None:
                listener.ended(step, result, left)

        if steps:
            pool.run(steps, store, listener.begun if listener is not None else lambda step: None, ended)

    run(missing, len(times) - len(known_times))
    # A file whose compiler estimates cycles is for a device that is not here, and one that failed is not measured.
    timed = [step for step in dict.fromkeys(times) if _is_measurable(results[build_step_of(step)])]
    run([step for step in timed if step not in results], 0)
    done = SweepResult([_row(cell, plan, store, results, computed) for cell in plan.cells], folder)
    done.save()
    return done


def build_step_of(step: Step) -> Step:
    """Return the step that makes the file of a measurement."""
    return Step("build", step.build, step.limits)


def _is_measurable(built: StepResult) -> bool:
    return built.status != "failed" and not built.figures.get("cycles")


def _is_known(cell: Cell, plan: SweepPlan, results: Mapping[Step, StepResult]) -> bool:
    built = results.get(build_step(cell, plan.limits))
    timed = built is not None and (
        not cell.runs or not _is_measurable(built) or time_step(cell, plan.limits) in results
    )
    return built is not None and timed


def _row(
    cell: Cell, plan: SweepPlan, store: Store, results: Mapping[Step, StepResult], computed: set[Step]
) -> CellResult:
    """Join the results of a cell's steps."""
    steps = [step for step in (build_step(cell, plan.limits), time_step(cell, plan.limits)) if step in results]
    parts = [results[step] for step in steps]
    bad = next((part for part in parts if part.status == "failed"), parts[0])
    one = cell.build
    row = CellResult(
        cell.name, one.model, one.backend, one.recipe, one.runtime, cell.threads, bad.status, bad.reason,
        not any(step in computed for step in steps), round(sum(part.seconds for part in parts), 3),
    )  # fmt: skip
    figures = {key: value for part in parts for key, value in part.figures.items()}
    paths: dict[str, Any] = {name: str((store.path(one) / file).relative_to(store.folder.parent))
             for name, file in (("file", FILE), ("report", REPORT)) if (store.path(one) / file).is_file()}  # fmt: skip
    return replace(row, **figures, **paths)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder, so that two sweeps do not write into it at the same time."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise EdgecoreError(
                f"another sweep is writing into {folder}; wait for it, or choose another folder"
            ) from error
        yield


# Processes of this machine --------------------------------------------------------------------------------------------


class LocalPool:
    """Processes of this machine: files are made side by side, times are measured alone."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def run(
        self,
        steps: Sequence[Step],
        store: Store,
        begun: Callable[[Step], None],
        ended: Callable[[Step, StepResult], None],
    ) -> None:
        """Run steps, and put their results into the store before `ended` is called."""
        stop = threading.Event()
        waiting = list(reversed(steps))
        running: dict[Future[StepResult], Step] = {}
        workers = self.jobs if steps[0].kind == "build" else 1
        with ThreadPoolExecutor(workers) as threads:
            try:
                while waiting or running:
                    while waiting and len(running) < workers:
                        step = waiting.pop()
                        begun(step)
                        running[threads.submit(_run_here, step, store, stop)] = step
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        ended(running.pop(future), future.result())
            except BaseException:
                stop.set()
                raise


def _run_here(step: Step, store: Store, stop: threading.Event) -> StepResult:
    if step.kind == "time":
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, FILE).symlink_to((store.path(step.build) / FILE).resolve())
            result = run_step(step, Path(folder), stop)
        if not stop.is_set():
            store.add(step, result)
        return result
    folder_of_build = store.scratch(step)
    result = run_step(step, folder_of_build, stop)
    if not stop.is_set():
        store.add(step, result, folder_of_build)
    return result


def run_step(step: Step, folder: Path, stop: threading.Event | None = None) -> StepResult:
    """Run a step in a process of its own, and return its result, whatever happens to the process.

    Args:
        step: The step.
        folder: Folder for the files that a build makes, or with the file to measure.
        stop: Cancels the process when it is set.
    """
    start = time.perf_counter()
    request = json.dumps([step.text(), str(folder.resolve()), os.getpid()])
    end = run_contained(request, step.limits.seconds, step.limits.memory_mb, stop)
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
