"""Find the libraries of custom operators in installed packages.

Loading a file imports this module only if the file calls a custom operator.

A package declares an entry point in the group `edgecore.kernels`, named after the namespace of its operators:

    [project.entry-points."edgecore.kernels"]
    my_ops = "my_package:kernels_library"

`kernels_library()` returns the absolute path of a shared library that exports `edgecore_kernels_v0`.
"""

from __future__ import annotations

from edgecore.errors import BackendBroken
from edgecore.plugin.entry_points import KERNELS, Provider, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def libraries(operators: Iterable[str]) -> list[str]:
    """Find the libraries of all packages that declare a namespace of these operators.

    Args:
        operators: Names as in a `.pte`: "my_ops::multiply_add.out".

    Returns:
        Absolute paths.

    Raises:
        BackendBroken: A package cannot be imported, or its function fails.
    """
    namespaces = {name.partition("::")[0] for name in operators}
    return [library(provider) for provider in scan(KERNELS) if provider.name in namespaces]


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
    """Make the error message for a package whose library cannot be located."""
    return f"the kernels {provider.name!r} of {provider.distribution} {provider.version} cannot be loaded: {why}"
