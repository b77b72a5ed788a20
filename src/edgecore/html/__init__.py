"""Reports as self-contained pages for a browser: each is a single file that makes no network requests."""

from __future__ import annotations

from edgecore.html.page import SWEEP_SCRIPTS, arena, frame, page, table

__all__ = ["SWEEP_SCRIPTS", "arena", "frame", "page", "table"]
