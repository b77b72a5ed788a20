"""Reports as pages for a browser: one file each, which needs nothing else and asks for nothing."""

from __future__ import annotations

from edgecore.html.page import SWEEP_SCRIPTS, arena, page, table

__all__ = ["SWEEP_SCRIPTS", "arena", "page", "table"]
