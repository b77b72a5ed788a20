"""Sweeps: many models, backends and recipes in one table; each cell of it is a process that may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecore.stability import lazy_names

if TYPE_CHECKING:
    from edgecore.sweeps.plan import Cell, SweepPlan, make_plan
    from edgecore.sweeps.results.compare import Change, compare_sweeps
    from edgecore.sweeps.results.display import Display
    from edgecore.sweeps.results.page import sweep_page
    from edgecore.sweeps.results.result import GOOD, CellResult, SweepResult, read_results
    from edgecore.sweeps.run import sweep
    from edgecore.sweeps.search import Found, search

__all__ = [
    "GOOD",
    "Cell",
    "CellResult",
    "Change",
    "Display",
    "Found",
    "SweepPlan",
    "SweepResult",
    "compare_sweeps",
    "make_plan",
    "read_results",
    "search",
    "sweep",
    "sweep_page",
]

_MODULE_OF = {
    "Cell": "plan",
    "CellResult": "results.result",
    "Change": "results.compare",
    "Display": "results.display",
    "Found": "search",
    "GOOD": "results.result",
    "SweepPlan": "plan",
    "SweepResult": "results.result",
    "compare_sweeps": "results.compare",
    "make_plan": "plan",
    "read_results": "results.result",
    "search": "search",
    "sweep": "run",
    "sweep_page": "results.page",
}

__getattr__ = lazy_names("edgecore.sweeps", {name: f"edgecore.sweeps.{place}" for name, place in _MODULE_OF.items()})
