"""`Backend`: the name of a backend together with its options, as users pass it to `edgecore.compile`."""

from __future__ import annotations

from typing import Any


class Backend:
    """Name of a backend and its options: `Backend("qnn", soc="SM8650", required=True)`.

    Args:
        name: Name, id or distribution of the backend: "xnnpack", "XnnpackBackend" or "edgecore-xnnpack".
        required: True to raise `CompileError` if an operator of the model would not run on any backend.
        skip_mutable_buffer: True to leave mutable buffers, such as caches, to the runtime even if the backend can hold
            them.
        **options: Options that the backend's package defines; `edgecore backends NAME` lists them.
    """

    def __init__(self, name: str, *, required: bool = False, skip_mutable_buffer: bool = False, **options: Any) -> None:
        self.name = name
        self.required = required
        self.skip_mutable_buffer = skip_mutable_buffer
        self.options = options

    def __repr__(self) -> str:
        return (
            f"Backend({self.name!r}, required={self.required}, skip_mutable_buffer={self.skip_mutable_buffer}, "
            f"{self.options})"
        )
