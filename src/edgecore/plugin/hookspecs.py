"""The hook that a backend's package implements. `edgecore doctor` checks implementations against it with pluggy."""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from edgecore.plugin.backend_info import BackendInfo

hookspec = pluggy.HookspecMarker("edgecore")


@hookspec
def edgecore_backends() -> Sequence[BackendInfo]:  # type: ignore[empty-body]
    """Return the declarations of all backends of the package."""
