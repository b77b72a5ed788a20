"""Reports as pages for a browser: each is one file, which makes no request."""

from __future__ import annotations

from edgecore.html.page import arena, page, table

__all__ = ["arena", "page", "table"]
