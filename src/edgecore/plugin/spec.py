"""The hooks that a package implements; its entry point in group `edgecore.backends` is named after the backend_id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from edgecore.plugin.types import BackendInfo

hookspec = pluggy.HookspecMarker("edgecore")
hookimpl = pluggy.HookimplMarker("edgecore")

ENTRY_POINT_GROUP = "edgecore.backends"


@hookspec
def edgecore_backends() -> Sequence[BackendInfo]:  # type: ignore[empty-body]
    """The backends of this package."""
