"""Libraries of custom operators in installed packages. Loading a file imports this only if it calls such operators.

A package declares an entry point in group `edgecore.kernels`, named after the namespace of its operators:

    [project.entry-points."edgecore.kernels"]
    my_ops = "my_package:kernels_library"

where `kernels_library()` gives the absolute path of a shared library that exports `edgecore_kernels_v0`.
"""

from __future__ import annotations

from edgecore.errors import BackendBroken
from edgecore.plugin.entry_points import KERNELS, Provider, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def libraries(operators: Iterable[str]) -> list[str]:
    """Paths of the libraries of every package that declares the namespace of one of these operators.

    Args:
        operators: Names as in a `.pte`: `my_ops::multiply_add.out`.

    Raises:
        BackendBroken: Such a package does not give its library.
    """
    namespaces = {name.partition("::")[0] for name in operators}
    return [library(provider) for provider in scan(KERNELS) if provider.name in namespaces]


def library(provider: Provider) -> str:
    """Path of the library of one package.

    Raises:
        BackendBroken: The package does not give it.
    """
    try:
        return str(provider.load()())
    except Exception as error:
        raise BackendBroken(broken(provider, f"{type(error).__name__}: {error}")) from error


def broken(provider: Provider, why: str) -> str:
    """The sentence for a package that does not give its library."""
    return f"the kernels {provider.name!r} of {provider.distribution} {provider.version} cannot be loaded: {why}"
