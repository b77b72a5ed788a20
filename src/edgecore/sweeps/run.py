"""`edgecore.sweep`: compute the cells of a plan, those that are known from the store, the others where a pool runs them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from edgecore.errors import EdgecoreError
from edgecore.sweeps.plan import Cell, SweepPlan, make_plan
from edgecore.sweeps.pools.pools import LocalPool, Pool
from edgecore.sweeps.results.result import RESULTS, CellResult, SweepResult, read_results
from edgecore.sweeps.step import FILE, REPORT, Step, StepResult, build_step, time_step
from edgecore.sweeps.store import Store

Results = Mapping[Step, StepResult]


class Listener(Protocol):
    """Methods that tell a display of a sweep. All are called by the thread that called `sweep`."""

    def planned(self, plan: SweepPlan, known: int, seconds: float, unknown: int) -> None:
        """Get the plan, the number of cells that are known, and the estimated time of the others."""

    def begun(self, step: Step) -> None:
        """Get a step that begins."""

    def ended(self, step: Step, result: StepResult, left: int) -> None:
        """Get a step that has ended, and the number of steps that are left."""


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

    Each cell is a process with limits, whose failure is a row of the table. First `jobs` files are made side by side,
    then times are measured one after the other. Results are kept in `output`: a sweep that was interrupted goes on, and
    a cell is computed again only if its model, the files that it has read, its options or the packages have changed.

    Args:
        source: Path of a `sweep.toml`, its content as a mapping, or a plan.
        output: Folder for the results; by default the name of the file without `.toml`, or `sweep`.
        jobs: Number of files that are made side by side; by default the number of processors.
        fresh: Compute all cells again.
        retry: Compute the cells again that are not `ok`.
        ray: Address of a Ray cluster, `HOST:PORT`, that runs the cells; needs the extra `edgecore[ray]`. This machine
            must be one of its nodes. By default they run on this machine.
        listener: Gets the plan and the progress.

    Returns:
        The results, which are also in `output`: `results.jsonl`, `results.csv`, `index.html`.

    Raises:
        EdgecoreError: The options are wrong, another sweep writes into the folder, or the Ray cluster cannot be used or
            is lost; what was finished by then is kept.

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
    with _alone(folder), _place(ray, jobs) as pool:
        return _sweep(plan, folder, pool, fresh, retry, listener)


def compute(
    steps: Sequence[Step], folder: Path, *, jobs: int | None, ray: str | None, listener: Listener | None
) -> Results:
    """Return the results of steps, those that are known from the folder of their sweep."""
    with _alone(folder), _place(ray, jobs) as pool:
        work = _Work(Store(folder / "cells"), pool, listener)
        work.run(work.find(steps), 0)
        return work.results


def _sweep(
    plan: SweepPlan, folder: Path, pool: Pool, fresh: bool, retry: bool, listener: Listener | None
) -> SweepResult:
    store = Store(folder / "cells")
    store.clean()
    work = _Work(store, pool, listener)
    # Only a place that measures must have a machine for it.
    processor = pool.processor if any(cell.runs for cell in plan.cells) else ""
    steps_of = {cell: (build_step(cell, plan.limits), time_step(cell, plan.limits, processor)) for cell in plan.cells}
    missing = work.find([build for build, _ in steps_of.values()], fresh, retry)
    times = {time: build for cell, (build, time) in steps_of.items() if cell.runs}
    known_times = [time for time, build in times.items() if build in work.results]
    work.find(known_times, fresh, retry)

    def row(cell: Cell) -> CellResult:
        return _row(cell, [step for step in steps_of[cell] if step in work.results], work)

    if listener is not None:
        unbuilt = tuple(cell for cell, (build, _) in steps_of.items() if build not in work.results)
        built = [cell for cell, (build, _) in steps_of.items() if build in work.results]
        known = [cell for cell in built if not cell.runs or steps_of[cell][1] in work.results
                 or not _is_measurable(work.results[steps_of[cell][0]])]  # fmt: skip
        history = read_results(folder) if (folder / RESULTS).is_file() else []
        seconds, unknown = SweepPlan(unbuilt, plan.limits).estimate([*history, *map(row, built)], pool.width("build"))
        listener.planned(plan, len(known), seconds, unknown)
    work.run(missing, len(times) - len(known_times))
    # A file whose compiler estimates cycles is for a device that is not here, and one that failed is not measured.
    work.run([time for time, build in times.items()
              if time not in work.results and _is_measurable(work.results[build])], 0)  # fmt: skip
    done = SweepResult(list(map(row, plan.cells)), folder)
    done.save()
    return done


class _Work:
    """Steps and their results: known ones from the store, the others from a pool."""

    def __init__(self, store: Store, pool: Pool, listener: Listener | None) -> None:
        self.store, self.pool, self.listener = store, pool, listener
        self.results: dict[Step, StepResult] = {}
        self.computed: set[Step] = set()

    def find(self, steps: Sequence[Step], fresh: bool = False, retry: bool = False) -> list[Step]:
        """Take the results of steps from the store, and return the steps without any."""
        wanted = list(dict.fromkeys(steps))
        for step in wanted:
            found = None if fresh else self.store.find(step)
            if found is not None and (found.status == "ok" or not retry):
                self.results[step] = found
        return [step for step in wanted if step not in self.results]

    def run(self, steps: Sequence[Step], later: int) -> None:
        """Compute steps of one kind; `later` steps come after them. The pool never has more than it has room for."""
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


def _is_measurable(built: StepResult) -> bool:
    return built.status in ("ok", "wrong") and not built.figures.get("cycles")


def _row(cell: Cell, steps: Sequence[Step], work: _Work) -> CellResult:
    """Join the results of a cell's steps."""
    parts = [work.results[step] for step in steps]
    bad = next((part for part in parts if part.status in ("failed", "made", "skipped")), parts[0])
    one = cell.build
    row = CellResult(
        cell.name, one.model, one.backend, one.recipe, one.runtime, cell.threads, bad.status, bad.reason,
        not any(step in work.computed for step in steps), round(sum(part.seconds for part in parts), 3),
    )  # fmt: skip
    figures = {key: value for part in parts for key, value in part.figures.items()}
    folder = work.store.path(one)
    paths: dict[str, Any] = {name: str((folder / file).relative_to(work.store.folder.parent))
             for name, file in (("file", FILE), ("report", REPORT))
             if not parts[0].transient and (folder / file).is_file()}  # fmt: skip
    return replace(row, **figures, **paths)


@contextmanager
def _place(ray: str | None, jobs: int | None) -> Iterator[Pool]:
    """Yield where steps run, and end all that still runs there at the end."""
    if ray is None:
        pool: Pool = LocalPool(jobs or os.cpu_count() or 1)
    else:
        from edgecore.sweeps.pools.ray_pool import RayPool

        pool = RayPool(ray, jobs)
    try:
        yield pool
    finally:
        pool.cancel()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder, so that two sweeps do not write into it at the same time."""
    try:
        import fcntl
    except ImportError as error:
        raise EdgecoreError(
            "a sweep holds its folder as Linux and macOS can: run it there, or on Windows in WSL"
        ) from error
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise EdgecoreError(
                f"another sweep is writing into {folder}; wait for it, or choose another folder"
            ) from error
        yield
