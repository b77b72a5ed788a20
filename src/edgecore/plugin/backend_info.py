"""`BackendInfo` and `hookimpl`, for the `__init__` of a backend's package.

Loading a file imports this module, so it imports no other module.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any, TypeVar

    LoadOptions = Mapping[str, bool | int | float | str | bytes | list[Any]]
    SelfTestRow = tuple[str, bool, str] | tuple[str, bool, str, str]
    Hook = TypeVar("Hook", bound=Callable[..., Any])


def hookimpl(function: Hook) -> Hook:
    """Mark a function as the implementation of a hook, like `pluggy.HookimplMarker("edgecore")` without options."""
    function.edgecore_impl = {}  # type: ignore[attr-defined]
    return function


class BackendInfo:
    """Declaration of one backend that a package provides.

    Args:
        name: Name that users write: `backends=["xnnpack"]`. Lower-case letters, digits, `-` and `_`.
        backend_id: Id in the `.pte`, which is also the name of the entry point: "XnnpackBackend".
        summary: One line about the backend.
        compiler: `"module:attribute"` of the compiler class (see `BackendCompiler`), imported on first use.
        native_library: Returns the absolute path of the delegate's shared library. Called when a file needs the
            backend. None for a backend that only compiles.
        load_options: Returns default options for loading, which the user's options override. Called after
            `native_library`. Use it for values that Python can find and the native library cannot, such as the folder
            of a vendor's library in another Python package.
        self_test: Computes something on this machine, within seconds and without torch, and returns rows (name of the
            check, passed, detail), or (name, passed, detail, remedy) if updating the package does not help.
            `edgecore doctor` calls it in a child process.
        unpack: `"module:function"`, for blobs that contain a folder. The function takes a blob and the file's named
            data (key -> object with `data`), and returns path -> content, or raises `FormatError`. `edgecore extract`
            also writes these files. The module must import neither torch nor other large packages.
    """

    __slots__ = ("backend_id", "compiler", "load_options", "name", "native_library", "self_test", "summary", "unpack")

    def __init__(
        self,
        *,
        name: str,
        backend_id: str,
        summary: str,
        compiler: str,
        native_library: Callable[[], str | Path] | None = None,
        load_options: Callable[[], LoadOptions] | None = None,
        self_test: Callable[[], Sequence[SelfTestRow]] | None = None,
        unpack: str | None = None,
    ) -> None:
        self.name = name
        self.backend_id = backend_id
        self.summary = summary
        self.compiler = compiler
        self.native_library = native_library
        self.load_options = load_options
        self.self_test = self_test
        self.unpack = unpack

    def __repr__(self) -> str:
        return (
            f"BackendInfo(name={self.name!r}, backend_id={self.backend_id!r}, summary={self.summary!r}, "
            f"compiler={self.compiler!r}, native_library={self.native_library!r}, load_options={self.load_options!r}, "
            f"self_test={self.self_test!r}, unpack={self.unpack!r})"
        )
