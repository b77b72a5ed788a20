"""Kernel packages: installed packages with kernels for operators of users.

Entry points of group `edgecore.kernels` are named after the operators' namespace (`mylib` for `mylib::scale.out`); their
value is the module that implements the hook `edgecore_kernels`.
"""

from __future__ import annotations

import os

from edgecore.errors import KernelError
from edgecore.plugin.declaration import KernelInfo
from edgecore.plugin.entries import KERNELS_GROUP, Provider, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def find_kernel(key: str) -> KernelInfo:
    """The package with the kernel of an operator such as `mylib::scale.out`.

    Raises:
        KernelError: No installed package has it, two have it, or one that might have it is broken.
    """
    namespace = key.partition("::")[0]
    providers = [provider for provider in scan(KERNELS_GROUP) if provider.backend_id == namespace]
    found = [(provider, info) for provider in providers for info in load(provider) if key in info.operators]
    if len(found) > 1:
        names = " and ".join(sorted(provider.distribution for provider, _ in found))
        raise KernelError(f"{key} has a kernel in each of {names}; uninstall all but one")
    if found:
        return found[0][1]
    if providers:
        names = " and ".join(sorted(provider.distribution for provider in providers))
        raise KernelError(f"{key} has no kernel: {names} has kernels of the namespace {namespace!r}, but not this one")
    raise KernelError(
        f"{key} has no kernel: install the package that has it, one with an entry point {namespace!r} in the group "
        f"{KERNELS_GROUP!r}"
    )


def libraries(keys: Iterable[str]) -> list[str]:
    """Paths of the libraries with the kernels of these operators, each once; none where no package has the namespace.

    Raises:
        KernelError: As `find_kernel`, or a package does not give its library.
    """
    declared = {provider.backend_id for provider in scan(KERNELS_GROUP)}
    found = [find_kernel(key) for key in keys if key.partition("::")[0] in declared]
    return list(dict.fromkeys(library(info) for info in found))


def library(info: KernelInfo) -> str:
    """The path that `info.native_library` gives.

    Raises:
        KernelError: It raised.
    """
    try:
        return os.fspath(info.native_library())
    except Exception as error:
        raise KernelError(f"the library of the kernels {info.namespace!r} cannot be found: {error}") from error


def load(provider: Provider) -> list[KernelInfo]:
    """What the hook of a package gives for the provider's namespace.

    Raises:
        KernelError: The package does not import, or its hook is wrong.
    """
    what = f"the kernel package {provider.distribution} {provider.version}"
    try:
        plugin = provider.load()
        infos = list(plugin.edgecore_kernels())
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())
        raise KernelError(f"{what} is broken: {type(error).__name__}: {text}") from error
    for info in infos:
        if not isinstance(info, KernelInfo):
            raise KernelError(f"{what} is broken: its hook edgecore_kernels gave a {type(info).__name__}")
    return [info for info in infos if info.namespace == provider.backend_id]
