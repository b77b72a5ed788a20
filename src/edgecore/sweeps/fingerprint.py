"""Digests of what the result of a cell depends on: files, and the versions of packages."""

from __future__ import annotations

import hashlib
import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

_ALWAYS = ("edgecore", "torch", "torchao", "numpy")
_LIBRARIES = ("torchvision", "timm", "transformers")
"""Packages that `edgecore compile` makes models with."""


def digest(text: str) -> str:
    """Return the digest of a text, 32 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def file_digest(path: Path) -> str:
    """Return the digest of a file's content, or of the names and contents of a folder's files; empty without either."""
    if path.is_dir():
        return digest("".join(f"{one.name}:{file_digest(one)};" for one in sorted(path.iterdir()) if one.is_file()))
    try:
        with path.open("rb") as file:
            made = hashlib.sha256()
            while part := file.read(1 << 20):
                made.update(part)
    except OSError:
        return ""
    return made.hexdigest()[:32]


def versions(backend: str, sources: Iterable[str]) -> list[str]:
    """Return the versions of the packages that a compilation uses.

    Args:
        backend: Name of the backend, whose package counts with all that it requires; "kernels" for none.
        sources: The models, which may come from a library.
    """
    libraries = [one.partition(":")[0] for one in sources]
    names = [*_ALWAYS, *(one for one in _LIBRARIES if one in libraries)]
    found = {name for one in [*names, *_distributions(backend)] for name in _with_requirements(one, one in names)}
    return [f"python=={sys.version_info.major}.{sys.version_info.minor}", *sorted(map(_version, found))]


def _distributions(backend: str) -> list[str]:
    """Return the package of a backend; none for "kernels" and for a backend that is not installed.

    A package that cannot be imported now is an error here: without it the key of a cell would be another one.
    """
    from edgecore.errors import BackendDisabled, BackendNotFound
    from edgecore.plugin import registry

    try:
        return [registry.provider_of(registry.find_by_name(backend)).distribution]
    except (BackendDisabled, BackendNotFound):
        return []


@cache
def _with_requirements(name: str, alone: bool) -> frozenset[str]:
    """Return the installed packages that a package requires here, and itself, without those of its extras.

    A package that another Python would require does not count, even if it is found: setuptools appends the folder of
    its own copies of packages to `sys.path`.
    """
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        try:
            requirements = metadata.requires(one) or []
        except metadata.PackageNotFoundError:
            continue
        found.add(one)
        if not alone:
            waiting += [one.name.lower() for one in map(Requirement, requirements) if _is_needed(one)]
    return frozenset(found)


def _is_needed(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


@cache
def _version(name: str) -> str:
    """Return name, version and, for packages of edgecore, the digest of the list of files with their hashes.

    What an installer writes is left out: it differs between machines with the same package.
    """
    package = metadata.distribution(name)
    if not name.startswith("edgecore"):
        return f"{name}=={package.version}"
    lines = (package.read_text("RECORD") or "").splitlines()
    own = [
        line
        for line in lines
        if not line.startswith("..") and ".dist-info/" not in line and "/__pycache__/" not in line
    ]
    return f"{name}=={package.version} {digest(chr(10).join(sorted(own)))}"


def imported_files() -> dict[str, str]:
    """Return the digests of the files of this process's modules that belong to no installed package: the user's."""
    paths = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = [path for path in paths if path and path.endswith(".py") and not is_installed(path)]
    return {path: file_digest(Path(path)) for path in sorted(own) if Path(path).is_file()}


def is_installed(path: str) -> bool:
    """Return True if a file, given by its absolute path, belongs to Python or to an installed package."""
    return path.startswith(_installed_folders())


@cache
def _installed_folders() -> tuple[str, ...]:
    """Return the folders of Python's own modules and of packages, also those of `pip install --user`, each with a `/`."""
    own = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(__file__).resolve().parents[2])]
    found = {*own, *site.getsitepackages(), site.getusersitepackages()}
    return tuple(f"{folder}{os.sep}" for folder in sorted(found))


def unchanged(inputs: dict[str, str]) -> bool:
    """Return True if files and folders still have the digests of an earlier time."""
    return all(file_digest(Path(path)) == known for path, known in inputs.items())
