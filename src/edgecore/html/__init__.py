"""Reports as self-contained pages for a browser: one file each, without requests to a network."""

from __future__ import annotations

from edgecore.html.page import SWEEP_SCRIPTS, arena, page, table

__all__ = ["SWEEP_SCRIPTS", "arena", "page", "table"]
