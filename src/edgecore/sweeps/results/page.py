"""The page of a sweep: a matrix with filters, a scatter plot with its Pareto front, and changes since another sweep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from edgecore.html import SWEEP_SCRIPTS, page
from edgecore.sweeps.results.compare import Change
from edgecore.sweeps.results.result import FIELDS, CellResult


def sweep_page(rows: Sequence[CellResult], title: str, changes: Sequence[Change] = ()) -> str:
    """Return the page of a sweep.

    Args:
        rows: The results.
        title: Name of the sweep.
        changes: Changes since another sweep, regressions first.
    """
    content = {
        "keys": FIELDS,
        "cells": [[_plain(value) for value in astuple(row)] for row in rows],
        "changes": [{"cell": change.cell, "what": change.what, "worse": change.worse} for change in changes],
    }
    return page(f"Sweep {title}", content, SWEEP_SCRIPTS)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
