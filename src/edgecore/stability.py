"""Names of a package that are imported when first used, and marks of names that are not stable. Imports nothing itself.

`docs/compatibility.md` says which names are stable and how long a deprecated one lives.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    Marked = TypeVar("Marked", bound=Callable[..., Any])


def lazy_names(
    package: str, homes: Mapping[str, str], deprecated: Mapping[str, tuple[str, str]] | None = None
) -> Callable[[str], Any]:
    """Make the module-level `__getattr__` of a package that imports its public names when they are first used.

    Args:
        package: Name of the package, for messages.
        homes: Module by name; `module:attribute` where the attribute has another name, `module:` for the module itself.
        deprecated: (new name, release that deprecated it) by old name. Reading an old name warns and gives the new one.
    """

    def getattr_of_package(name: str) -> Any:
        if deprecated and name in deprecated:
            new, since = deprecated[name]
            _warn(f"{package}.{name}", f"{package}.{new}", since)
            name = new
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        module, separator, attribute = homes[name].partition(":")
        imported = import_module(module)
        return imported if separator and not attribute else getattr(imported, attribute or name)

    return getattr_of_package


def deprecated(*, use: str, since: str) -> Callable[[Marked], Marked]:
    """Mark a function that warns with a `DeprecationWarning` when it is called. A renamed class: see `lazy_names`.

    Args:
        use: The replacement, as callers write it: `edgecore.sdk.edit`.
        since: The release that deprecated it: `0.2`.
    """

    def mark(function: Marked) -> Marked:
        from functools import wraps

        @wraps(function)
        def warning(*args: Any, **kwargs: Any) -> Any:
            _warn(f"{function.__module__}.{function.__qualname__}", use, since)
            return function(*args, **kwargs)

        warning.__deprecated__ = f"use {use}"  # type: ignore[attr-defined]  # the attribute that PEP 702 defines
        return warning  # type: ignore[return-value]

    return mark


def experimental(marked: Marked) -> Marked:
    """Mark a function or class that may change in any release: the attribute `__experimental__`, and a line of its help."""
    marked.__experimental__ = True  # type: ignore[attr-defined]
    marked.__doc__ = f"{(marked.__doc__ or '').rstrip()}\n\nExperimental: may change in any release."
    return marked


def _warn(name: str, use: str, since: str) -> None:
    import warnings

    message = f"{name} is deprecated since edgecore {since}; use {use}"
    warnings.warn(message, category=DeprecationWarning, stacklevel=3)
