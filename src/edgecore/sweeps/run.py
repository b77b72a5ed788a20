"""`edgecore.sweep`: compile, verify and measure the files of a sweep, except those whose results are stored."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from edgecore.errors import EdgecoreError
from edgecore.processes.interrupts import uninterrupted
from edgecore.sweeps.plan import Cell, SweepPlan, make_plan
from edgecore.sweeps.pools.pools import LocalPool, Pool
from edgecore.sweeps.results.result import RESULTS, CellResult, SweepResult, read_results
from edgecore.sweeps.step import FILE, REPORT, Step, StepResult, build_step, time_step
from edgecore.sweeps.store import Store


class Listener(Protocol):
    """Receives the progress of a sweep, in the thread that called `sweep`."""

    def planned(self, plan: SweepPlan, known: int, seconds: float, unknown: int) -> None:
        """Receive the plan, the number of cells with stored results, and the estimated seconds of the others."""

    def begun(self, step: Step) -> None:
        """Receive a step that begins."""

    def ended(self, step: Step, result: StepResult, left: int) -> None:
        """Receive a step that has ended, and the number of remaining steps."""


def sweep(
    source: str | Path | Mapping[str, Any] | SweepPlan,
    output: str | Path | None = None,
    *,
    jobs: int | None = None,
    fresh: bool = False,
    retry: bool = False,
    ray: str | None = None,
    listener: Listener | None = None,
) -> SweepResult:
    """Compile, verify, compare and measure each cell of a sweep; needs the extra `edgecore[compile]`.

    A cell is one model, backend, recipe, runtime and number of threads. A cell runs in processes with limits; if a
    process fails, the cell's row has the reason. First the files are made, `jobs` at a time, then times are measured
    one after the other. `output` keeps the results: an interrupted sweep continues where it stopped. A cell is computed
    again only if its model, its options, the packages, or the files that it read have changed.

    Args:
        source: Path of a `sweep.toml`, its content as a mapping, or a plan.
        output: Folder for the results; by default the name of the file without `.toml`, or `sweep`.
        jobs: Number of files that are made at the same time; by default the number of processors.
        fresh: Compute all cells again.
        retry: Compute again the cells that are not `ok`.
        ray: Address of a Ray cluster, `HOST:PORT`, that runs the cells; needs the extra `edgecore[ray]`. This machine
            must be a node of the cluster. By default the cells run on this machine.
        listener: Receives the plan and the progress.

    Returns:
        The results, which are also in `output`: `results.jsonl`, `results.csv`, `index.html`.

    Raises:
        EdgecoreError: The options are wrong, another sweep writes into the folder, or the Ray cluster cannot be used or
            is lost; results of finished steps are kept.

    Example:
        >>> edgecore.sweep({"models": ["net.pt2"], "backends": ["xnnpack"], "recipes": ["float", "int8-dynamic"]})
    """
    if jobs is not None and jobs < 1:
        raise EdgecoreError(f"jobs must be at least 1; got {jobs}")
    plan = source if isinstance(source, SweepPlan) else make_plan(source)
    default = Path(source).stem if isinstance(source, (str, Path)) else "sweep"
    folder = Path(default if output is None else output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EdgecoreError(f"cannot write into {folder}: {error.strerror}; choose another folder") from error
    store = Store(folder / "cells")
    with _locked(folder), store.cleaned(), _pool(ray, jobs) as pool:
        return _sweep(plan, store, pool, fresh, retry, listener)


def _sweep(
    plan: SweepPlan, store: Store, pool: Pool, fresh: bool, retry: bool, listener: Listener | None
) -> SweepResult:
    folder = store.folder.parent
    session = _Session(store, pool, listener)
    # Ask for the processor only if times are measured, because a Ray cluster without nodes that measure has none.
    processor = pool.processor if any(cell.runs for cell in plan.cells) else ""
    steps_of = {cell: (build_step(cell, plan.limits), time_step(cell, plan.limits, processor)) for cell in plan.cells}
    missing = session.find([build for build, _ in steps_of.values()], fresh, retry)
    times = {time: build for cell, (build, time) in steps_of.items() if cell.runs}
    known_times = [time for time, build in times.items() if build in session.results]
    session.find(known_times, fresh, retry)

    def row(cell: Cell) -> CellResult:
        return _row(cell, [step for step in steps_of[cell] if step in session.results], session)

    if listener is not None:
        unbuilt = tuple(cell for cell, (build, _) in steps_of.items() if build not in session.results)
        built = [cell for cell, (build, _) in steps_of.items() if build in session.results]
        measured = [cell for cell in built if cell.runs and _is_measurable(session.results[steps_of[cell][0]])]
        missing_times = sum(steps_of[cell][1] not in session.results for cell in measured)
        history = read_results(folder) if (folder / RESULTS).is_file() else []
        seconds, unknown = SweepPlan(unbuilt, plan.limits).estimate([*history, *map(row, built)], pool.width("build"))
        listener.planned(plan, len(built) - missing_times, seconds, unknown)
    session.run(missing, len(times) - len(known_times))
    # Measure only files that were compiled and run here. For a file for another device, the compiler estimates cycles
    # instead.
    unmeasured = [time for time in times if time not in session.results]
    session.run([time for time in unmeasured if _is_measurable(session.results[times[time]])], 0)
    done = SweepResult(list(map(row, plan.cells)), folder)
    done.save()
    return done


class _Session:
    """The results of steps: stored results, and results that the pool computes."""

    def __init__(self, store: Store, pool: Pool, listener: Listener | None) -> None:
        self.store, self.pool, self.listener = store, pool, listener
        self.results: dict[Step, StepResult] = {}
        self.computed: set[Step] = set()

    def find(self, steps: Sequence[Step], fresh: bool = False, retry: bool = False) -> list[Step]:
        """Take stored results of `steps` from the store, and return the steps left to compute."""
        wanted = list(dict.fromkeys(steps))
        for step in wanted:
            stored = None if fresh else self.store.find(step)
            if stored is not None and (stored.status == "ok" or not retry):
                self.results[step] = stored
        return [step for step in wanted if step not in self.results]

    def run(self, steps: Sequence[Step], later: int) -> None:
        """Compute steps of one kind, at most `pool.width` at once; `later` is the number of steps after them."""
        waiting, running = deque(steps), dict[Step, Path]()
        while waiting or running:
            while waiting and len(running) < self.pool.width(waiting[0].kind):
                step = waiting.popleft()
                running[step] = self.store.scratch(step)
                if self.listener is not None:
                    self.listener.begun(step)
                self.pool.submit(step, running[step])
            for step, result in self.pool.wait():
                scratch = running.pop(step)
                if result.transient:
                    self.store.discard(scratch)
                else:
                    self.store.add(step, result, scratch)
                self.results[step] = result
                self.computed.add(step)
                if self.listener is not None:
                    self.listener.ended(step, result, len(waiting) + len(running) + later)


def _is_measurable(build: StepResult) -> bool:
    return build.status in ("ok", "wrong") and not build.figures.get("cycles")


def _row(cell: Cell, steps: Sequence[Step], session: _Session) -> CellResult:
    """Join the results of a cell's steps (its compilation and its measurement) to one row."""
    parts = [session.results[step] for step in steps]
    bad = next((part for part in parts if part.status in ("failed", "made", "skipped")), parts[0])
    build, cached = cell.build, not any(step in session.computed for step in steps)
    names = (cell.name, build.model, build.backend, build.recipe, build.runtime)
    seconds = round(sum(part.seconds for part in parts), 3)
    row = CellResult(*names, cell.threads, bad.status, bad.reason, cached, seconds)
    figures = {key: value for part in parts for key, value in part.figures.items()}
    folder = session.store.path(build)
    files = {"file": folder / FILE, "report": folder / REPORT}
    present = {name: file for name, file in files.items() if not parts[0].transient and file.is_file()}
    paths: dict[str, Any] = {name: str(file.relative_to(session.store.folder.parent)) for name, file in present.items()}
    return replace(row, **figures, **paths)


@contextmanager
def _pool(ray: str | None, jobs: int | None) -> Iterator[Pool]:
    """Yield the pool (of local processes or on a cluster) that runs the steps; at the end cancel all running steps."""
    if ray is None:
        pool: Pool = LocalPool(jobs or os.cpu_count() or 1)
    else:
        from edgecore.sweeps.pools.ray_pool import RayPool

        pool = RayPool(ray, jobs)
    try:
        yield pool
    finally:
        with uninterrupted():
            pool.cancel()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder, so that no two sweeps write into it at the same time."""
    try:
        import fcntl
    except ImportError as error:
        raise EdgecoreError(
            "a sweep locks its folder, which only Linux and macOS support: run it there, or on Windows in WSL"
        ) from error
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise EdgecoreError(
                f"another sweep is writing into {folder}; wait for it, or choose another folder"
            ) from error
        yield
