"""`Backend`: the name of a backend together with its options, as users pass it to `edgecore.compile`."""

from __future__ import annotations

from typing import Any


class Backend:
    """Name of a backend and its options: `Backend("qnn", soc="SM8650", required=True)`.

    Args:
        name: Name, id or distribution of the backend: "xnnpack", "XnnpackBackend" or "edgecore-xnnpack".
        required: Raise `CompileError` if an operator of the model would not run on any backend.
        **options: Options that the backend's package defines; `edgecore backends NAME` lists them.
    """

    def __init__(self, name: str, *, required: bool = False, **options: Any) -> None:
        self.name = name
        self.required = required
        self.options = options

    def __repr__(self) -> str:
        return f"Backend({self.name!r}, required={self.required}, {self.options})"
