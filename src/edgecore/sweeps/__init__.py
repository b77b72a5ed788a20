"""Sweeps over models, backends and recipes. Each combination runs in its own processes, which may fail."""

from __future__ import annotations

from edgecore.stability import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.sweeps.plan import Cell as Cell
    from edgecore.sweeps.plan import SweepPlan as SweepPlan
    from edgecore.sweeps.plan import make_plan as make_plan
    from edgecore.sweeps.results.compare import Change as Change
    from edgecore.sweeps.results.compare import compare_sweeps as compare_sweeps
    from edgecore.sweeps.results.display import Display as Display
    from edgecore.sweeps.results.page import sweep_page as sweep_page
    from edgecore.sweeps.results.result import GOOD as GOOD
    from edgecore.sweeps.results.result import CellResult as CellResult
    from edgecore.sweeps.results.result import SweepResult as SweepResult
    from edgecore.sweeps.results.result import read_results as read_results
    from edgecore.sweeps.run import sweep as sweep
    from edgecore.sweeps.search import Found as Found
    from edgecore.sweeps.search import search as search

__all__, __getattr__ = public_names(
    "edgecore.sweeps",
    {
        "edgecore.sweeps.plan": "Cell SweepPlan make_plan",
        "edgecore.sweeps.results.compare": "Change compare_sweeps",
        "edgecore.sweeps.results.display": "Display",
        "edgecore.sweeps.results.page": "sweep_page",
        "edgecore.sweeps.results.result": "CellResult GOOD SweepResult read_results",
        "edgecore.sweeps.run": "sweep",
        "edgecore.sweeps.search": "Found search",
    },
)
