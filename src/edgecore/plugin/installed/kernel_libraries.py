"""Find the kernel libraries of installed packages: kernels of custom operators, and replacements of edgecore's kernels.

A package declares entry points in the group `edgecore.kernels`. An entry point is named after the namespace of custom
operators, or after a single operator, for which the package's kernel then takes precedence over edgecore's own:

    [project.entry-points."edgecore.kernels"]
    my_ops = "my_package:kernels_library"
    "aten::add.out" = "my_package:kernels_library"

`kernels_library()` returns the absolute path of a shared library that exports `edgecore_kernels_v0`.
"""

from __future__ import annotations

import os
from functools import lru_cache

from edgecore.errors import BackendAmbiguous, BackendBroken
from edgecore.plugin.installed.entry_points import KERNELS, Provider, scan, searched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def libraries(operators: Iterable[str]) -> list[str]:
    """Find the libraries of all packages that declare kernels for the namespace of one of these operators.

    Args:
        operators: Names as in a `.pte`: "my_ops::multiply_add.out".

    Returns:
        Absolute paths.

    Raises:
        BackendBroken: A package cannot be imported, or its function fails.
    """
    namespaces = {name.partition("::")[0] for name in operators}
    return [library(provider) for provider in scan(KERNELS) if provider.name in namespaces]


def declared() -> dict[str, list[Provider]]:
    """Return the operators that entry points of packages declare, such as "aten::add.out", each with its packages.

    Each load of a file calls this function, so its result is cached until a package is installed or removed.
    """
    return _declared(tuple((path, _changed(path)) for path in searched()))


@lru_cache(maxsize=1)
def _declared(_folders: tuple[tuple[str, int], ...]) -> dict[str, list[Provider]]:
    packages: dict[str, list[Provider]] = {}
    for provider in scan(KERNELS):
        if is_operator(provider.name):
            packages.setdefault(provider.name, []).append(provider)
    return packages


def is_operator(name: str) -> bool:
    """Return True if an entry point is named after an operator, False if after a namespace."""
    return "::" in name


def package_of(operator: str) -> Provider:
    """Return the package that declares an operator.

    Args:
        operator: A key of `declared()`.

    Raises:
        BackendAmbiguous: Two packages declare it.
    """
    providers = declared()[operator]
    if len(providers) > 1:
        names = " and ".join(sorted(f"{provider.distribution} {provider.version}" for provider in providers))
        raise BackendAmbiguous(f"the kernel of {operator} is declared by {names}; uninstall one of them")
    return providers[0]


def library(provider: Provider) -> str:
    """Return the absolute path of the library of one package.

    Raises:
        BackendBroken: The package cannot be imported, or its function fails.
    """
    try:
        return str(provider.load()())
    except Exception as error:
        raise BackendBroken(broken(provider, f"{type(error).__name__}: {error}")) from error


def broken(provider: Provider, why: str) -> str:
    """Make the error message for a package whose kernel library cannot be found."""
    return f"the kernels {provider.name!r} of {provider.distribution} {provider.version} cannot be loaded: {why}"


def _changed(path: str) -> int:
    """Return the time of the last change of a folder; 0 if it does not exist."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
