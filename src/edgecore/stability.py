"""Tables of public names, decorators for deprecated and experimental functions, and warnings about unused arguments.

`docs/compatibility.md` says which names are stable and for how long a deprecated name keeps working. This module
imports nothing at the top, because `import edgecore` imports it.
"""

from __future__ import annotations

# All modules that `edgecore.load` imports define this constant instead of importing it from `typing`, because that
# import takes milliseconds. Type checkers treat any constant with this name like typing.TYPE_CHECKING.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    Marked = TypeVar("Marked", bound=Callable[..., Any])


def lazy_names(
    package: str, modules: Mapping[str, str], deprecated: Mapping[str, tuple[str, str]] | None = None
) -> Callable[[str], Any]:
    """Make a module-level `__getattr__` (PEP 562) that imports each public name at its first use.

    Args:
        package: Name of the package, for messages.
        modules: Module that defines each name: `module` if the attribute has the same name, `module:attribute` if it
            has another name, `module:` if the name is the module itself.
        deprecated: Maps an old name to (new name, release that deprecated the old name). Reading the old name issues a
            `DeprecationWarning` and returns the object of the new name.

    Returns:
        The function; assign it to `__getattr__` in the package.

    Example:
        >>> __getattr__ = lazy_names("edgecore.sdk", {"Constants": "edgecore.ir.program.constants"})
    """

    def getattr_of_package(name: str) -> Any:
        if deprecated and name in deprecated:
            new, since = deprecated[name]
            _warn(f"{package}.{name}", f"{package}.{new}", since)
            name = new
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        module, separator, attribute = modules[name].partition(":")
        imported = import_module(module)
        return imported if separator and not attribute else getattr(imported, attribute or name)

    return getattr_of_package


def public_names(
    package: str, names: Mapping[str, str], deprecated: Mapping[str, tuple[str, str]] | None = None
) -> tuple[list[str], Callable[[str], Any]]:
    """Make `__all__` and `__getattr__` of a package from one table of its public names.

    Type checkers cannot read the table: also import each name below `TYPE_CHECKING`: `from module import Name as Name`.

    Args:
        package: Name of the package, for messages.
        names: Maps a module to the names that it defines, separated by spaces.
        deprecated: As for `lazy_names`.

    Returns:
        The sorted names, for `__all__`, and the function that imports each of them on first use, for `__getattr__`.

    Example:
        >>> __all__, __getattr__ = public_names("edgecore.sdk", {"edgecore.ir.shapes": "axes rank shape"})
    """
    module_of = {name: module for module, line in names.items() for name in line.split()}
    return sorted(module_of), lazy_names(package, module_of, deprecated)


def deprecated(*, use: str, since: str) -> Callable[[Marked], Marked]:
    """Decorate a deprecated function: each call issues a `DeprecationWarning`. For a renamed class, see `lazy_names`.

    Args:
        use: The replacement, as callers write it: `edgecore.sdk.edit`.
        since: The release that deprecated the function: `0.2`.

    Returns:
        The decorator.
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
    """Decorate a function or class that may change in any release.

    Args:
        marked: The function or class.

    Returns:
        `marked` itself, with the attribute `__experimental__ = True` and a line about it at the end of its docstring.
    """
    marked.__experimental__ = True  # type: ignore[attr-defined]
    marked.__doc__ = f"{(marked.__doc__ or '').rstrip()}\n\nExperimental: may change in any release."
    return marked


_without_effect: set[str] = set()


def warn_no_effect(argument: str, reason: str) -> None:
    """Issue a `NoEffectWarning` the first time that an argument of ExecuTorch's interface is passed.

    The warning shows the line of the caller, see `level_of_caller`.

    Args:
        argument: The argument as callers write it: `EdgeCompileConfig(_skip_dim_order=True)`.
        reason: The reason why edgecore does not need the argument, worded as the end of a sentence.
    """
    import warnings

    from edgecore.errors import NoEffectWarning

    if argument in _without_effect:
        return
    _without_effect.add(argument)
    message = f"{argument} has no effect in edgecore: {reason}"
    warnings.warn(message, category=NoEffectWarning, stacklevel=level_of_caller())


def level_of_caller() -> int:
    """Return the `stacklevel` with which the caller's `warnings.warn` shows the line of the user's code.

    This is the line in the innermost function outside of edgecore and backends.
    """
    import sys

    level, frame = 1, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith("edgecore"):
        level, frame = level + 1, frame.f_back
    return level


def _warn(name: str, use: str, since: str) -> None:
    import warnings

    message = f"{name} is deprecated since edgecore {since}; use {use}"
    warnings.warn(message, category=DeprecationWarning, stacklevel=3)
