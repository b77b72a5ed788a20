"""`edgecore.search`: find the best recipe for a model and a target by sweeps over recipes.

The first sweep tries all recipes of the backend. The second sweep tries mixed recipes, which leave some modules in
floating point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from edgecore.errors import EdgecoreError
from edgecore.sweeps.fingerprint import digest
from edgecore.sweeps.plan import FLOAT, Cell, make_plan
from edgecore.sweeps.results.result import CellResult, table
from edgecore.sweeps.run import Listener, sweep

Objective = Literal["latency", "size"]
_MIXED = "-mixed"


@dataclass(frozen=True)
class Found:
    """The result of `search`.

    Attributes:
        best: The best cell (a recipe and its file) that loses at most `max_loss`; None if every cell loses more or
            failed.
        rows: All cells that were tried.
        recipe: The recipe of the best cell, for `edgecore.compile(quantize=...)`; None for the float model.
        folder: The folder to which `CellResult.file` and `report` are relative.
    """

    best: CellResult | None
    rows: Sequence[CellResult]
    recipe: Any
    folder: Path

    def __str__(self) -> str:
        if self.best is None:
            return f"{table(self.rows)}\nno recipe loses little enough"
        return f"{table(self.rows)}\nbest: {self.best.recipe}: {self.folder / self.best.file}\nquantize={self.recipe!r}"


def search(
    model: str,
    *,
    target: str | Mapping[str, Any] = "xnnpack",
    calibration: str | None = None,
    accuracy: str | None = None,
    max_loss: float = 0.01,
    objective: Objective = "latency",
    output: str | Path = "search",
    jobs: int | None = None,
    runs: int = 20,
    ray: str | None = None,
    listener: Listener | None = None,
) -> Found:
    """Find the recipe with the fastest or smallest file that loses at most `max_loss`.

    All recipes of the backend are tried in a sweep. If a recipe is better than the best acceptable one but loses too
    much accuracy, `edgecore.devtools.suggest` looks for modules to leave in floating point.

    Args:
        model: The model, as `edgecore compile` takes it.
        target: Name of the backend, or a mapping with the key `backend` and options.
        calibration: Folder of samples, or `module:function` that returns samples; without samples only recipes that do
            not calibrate can succeed.
        accuracy: `module:function`. The function takes the program, as a function of its inputs, and returns a number;
            higher is better. Without it the loss is the relative error of the outputs on the example inputs.
        max_loss: The largest acceptable difference between the accuracies of the float model and of the program;
            without `accuracy` the largest relative error of an output: 0.01 is an SQNR of 40 dB.
        objective: `latency` (the median time, or the cycles that the backend's compiler estimates) or `size`.
        output: Folder for the results.
        jobs: As for `edgecore.sweep`.
        runs: Number of measured runs.
        ray: As for `edgecore.sweep`.
        listener: As for `edgecore.sweep`.

    Returns:
        The best file, and all files that were tried.

    Raises:
        EdgecoreError: An argument is wrong, another sweep writes into the folder, or the Ray cluster cannot be used or
            is lost.

    Example:
        >>> print(edgecore.search("my_models:digits", calibration="samples", accuracy="my_models:accuracy"))
    """
    if not 0 < max_loss < math.inf:
        raise EdgecoreError(f"max_loss must be above 0; got {max_loss}")
    if objective not in ("latency", "size"):
        raise EdgecoreError(f"objective must be latency or size; got {objective!r}")
    backend = {"backend": target} if isinstance(target, str) else dict(target)
    judged_by = {key: text for key, text in (("calibration", calibration), ("accuracy", accuracy)) if text is not None}
    options = {
        "models": {"model": {"source": model, **judged_by}},
        "backends": {str(backend.get("backend")): backend},
        "recipes": "all",
        "runs": runs,
    }
    plan = make_plan(options)
    done = sweep(plan, output, jobs=jobs, ray=ray, listener=listener)
    order = _order(objective)
    lossy = [] if calibration is None else _lossy(done.rows, order, max_loss)
    if lossy:
        cells = {cell.name: cell for cell in plan.cells}
        mixed = [_mixed(cells[row.cell], max_loss) for row in lossy]
        done = sweep(replace(plan, cells=(*plan.cells, *mixed)), output, jobs=jobs, ray=ray, listener=listener)
    best = _best(done.rows, order, max_loss)
    return Found(best, done.rows, None if best is None else _recipe(best), done.folder)


def _mixed(cell: Cell, max_loss: float) -> Cell:
    """Return a copy of a cell that leaves modules in floating point, to lose at most `max_loss` of accuracy."""
    build = cell.build
    key = digest(f"{build.key} {max_loss}")
    return replace(cell, build=replace(build, recipe=build.recipe + _MIXED, max_loss=max_loss, key=key))


_Order = Callable[[CellResult], tuple[float, float]]


def _lossy(rows: Sequence[CellResult], order: _Order, max_loss: float) -> list[CellResult]:
    """Return the recipes, best first, that lose too much accuracy but are better than the best acceptable one."""
    best = _best(rows, order, max_loss)
    lossy = [row for row in rows if row.status == "ok" and row.recipe != FLOAT and not _is_good(row, max_loss)]
    return [row for row in sorted(lossy, key=order) if best is None or order(row) < order(best)]


def _best(rows: Sequence[CellResult], order: _Order, max_loss: float) -> CellResult | None:
    return min((row for row in rows if _is_good(row, max_loss)), key=order, default=None)


def _order(objective: Objective) -> _Order:
    def latency(row: CellResult) -> float:
        return float(row.cycles or row.median_ms or math.inf)

    def size(row: CellResult) -> float:
        return float(row.file_bytes or math.inf)

    if objective == "size":
        return lambda row: (size(row), latency(row))
    return lambda row: (latency(row), size(row))


def _is_good(row: CellResult, max_loss: float) -> bool:
    from edgecore.devtools.accuracy import is_good_enough, lowest_sqnr

    if row.status != "ok":
        return False
    if row.accuracy is not None and row.float_accuracy is not None:
        return is_good_enough(row.accuracy, row.float_accuracy, max_loss)
    return row.sqnr_db is not None and row.sqnr_db >= lowest_sqnr(max_loss)


def _recipe(row: CellResult) -> Any:
    from edgecore.recipe import Recipe

    if row.recipe == FLOAT:
        return None
    return Recipe(row.recipe.removesuffix(_MIXED), **({"skip": row.skip} if row.skip else {}))
