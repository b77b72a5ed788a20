"""What the `__init__` of a backend's package needs. Loading a file imports this, so it imports nothing itself."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any, TypeVar

    LoadOptions = Mapping[str, bool | int | float | str | bytes | list[Any]]
    Hook = TypeVar("Hook", bound=Callable[..., Any])


def hookimpl(function: Hook) -> Hook:
    """Mark the implementation of a hook, as `pluggy.HookimplMarker("edgecore")` does without options."""
    function.edgecore_impl = {}  # type: ignore[attr-defined]
    return function


class BackendInfo:
    """One backend that a package provides.

    `name` is what users write (`backends=["xnnpack"]`), `backend_id` what the `.pte` holds and what the entry point is
    called. `compiler` is `"module:attribute"`, imported on first use. `native_library` gives the absolute path of the
    delegate's shared library and is called when a file needs it. `load_options`, called after it, gives options for loading
    under those of the user: what Python finds and the delegate cannot, such as where a package keeps the vendor's library.
    `self_test` computes on this machine, within seconds and without torch, and gives (what, whether it is right, detail)
    rows for `edgecore doctor`, which calls it in a process of its own.
    """

    __slots__ = ("backend_id", "compiler", "load_options", "name", "native_library", "self_test", "summary")

    def __init__(
        self,
        *,
        name: str,
        backend_id: str,
        summary: str,
        compiler: str,
        native_library: Callable[[], str | Path] | None = None,
        load_options: Callable[[], LoadOptions] | None = None,
        self_test: Callable[[], Sequence[tuple[str, bool, str]]] | None = None,
    ) -> None:
        self.name = name
        self.backend_id = backend_id
        self.summary = summary
        self.compiler = compiler
        self.native_library = native_library
        self.load_options = load_options
        self.self_test = self_test

    def __repr__(self) -> str:
        return (
            f"BackendInfo(name={self.name!r}, backend_id={self.backend_id!r}, summary={self.summary!r}, "
            f"compiler={self.compiler!r}, native_library={self.native_library!r}, load_options={self.load_options!r}, "
            f"self_test={self.self_test!r})"
        )
