"""The hooks that a package implements, for `edgecore doctor`, which lets pluggy judge an implementation."""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from edgecore.plugin.backend_info import BackendInfo

hookspec = pluggy.HookspecMarker("edgecore")


@hookspec
def edgecore_backends() -> Sequence[BackendInfo]:  # type: ignore[empty-body]
    """The backends of this package."""
