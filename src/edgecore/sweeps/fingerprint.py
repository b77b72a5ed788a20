"""Compute digests of the files and package versions on which the results of a sweep depend."""

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
"""Packages from which `edgecore compile` takes models."""


def digest(text: str) -> str:
    """Return the digest of a text, 32 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def file_digest(path: Path) -> str:
    """Return the digest of a file's content, or of the names and contents of a folder's files; empty if unreadable."""
    if path.is_dir():
        return digest("".join(f"{file.name}:{file_digest(file)};" for file in sorted(path.iterdir()) if file.is_file()))
    try:
        with path.open("rb") as file:
            sha256 = hashlib.sha256()
            while part := file.read(1 << 20):
                sha256.update(part)
    except OSError:
        return ""
    return sha256.hexdigest()[:32]


def versions(backend: str, sources: Iterable[str]) -> list[str]:
    """Return the versions of the packages that a compilation uses.

    Args:
        backend: Name of the backend; its package and all its requirements are included. "kernels" for none.
        sources: The sources of the models; a source such as `timm:NAME` adds the package of the library.
    """
    libraries = [source.partition(":")[0] for source in sources]
    names = [*_ALWAYS, *(library for library in _LIBRARIES if library in libraries)]
    roots = [*names, *_distributions(backend)]
    packages = {name for root in roots for name in _with_requirements(root, root in names)}
    return [f"python=={sys.version_info.major}.{sys.version_info.minor}", *sorted(map(_version, packages))]


def _distributions(backend: str) -> list[str]:
    """Return the packages of a backend; none for "kernels", or if the backend is not installed.

    A package that cannot be imported raises an error: leaving it out would change the keys of stored results.
    """
    from edgecore.errors import BackendDisabled, BackendNotFound
    from edgecore.plugin import registry

    try:
        return [registry.provider_of(registry.find_by_name(backend)).distribution]
    except (BackendDisabled, BackendNotFound):
        return []


@cache
def _with_requirements(name: str, alone: bool) -> frozenset[str]:
    """Return a package and, unless `alone`, its installed requirements for this Python, without extras.

    Requirements of other Python versions are left out even if they are installed: setuptools appends its vendored
    packages to `sys.path`, so some processes would find such a requirement, and others would not.
    """
    packages: set[str] = set()
    waiting = [name]
    while waiting:
        package = waiting.pop()
        if package in packages:
            continue
        try:
            requirements = metadata.requires(package) or []
        except metadata.PackageNotFoundError:
            continue
        packages.add(package)
        if not alone:
            waiting += [row.name.lower() for row in map(Requirement, requirements) if _is_needed(row)]
    return frozenset(packages)


def _is_needed(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


@cache
def _version(name: str) -> str:
    """Return a package's name and version; for a package of edgecore, also a digest of its list of installed files.

    Files that an installer writes are left out, because they differ between machines with the same package.
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
    """Return the digests of all imported Python files that belong to no installed package: the user's own files."""
    paths = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = [path for path in paths if path and path.endswith(".py") and not is_installed(path)]
    return {path: file_digest(Path(path)) for path in sorted(own) if Path(path).is_file()}


def is_installed(path: str) -> bool:
    """Return True if a file, given by its absolute path, belongs to Python or to an installed package."""
    return path.startswith(_installed_folders())


@cache
def _installed_folders() -> tuple[str, ...]:
    """Return the folders of the standard library and of installed packages, user site included, each ending in `/`."""
    own = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(__file__).resolve().parents[2])]
    folders = {*own, *site.getsitepackages(), site.getusersitepackages()}
    return tuple(f"{folder}{os.sep}" for folder in sorted(folders))


def unchanged(inputs: dict[str, str]) -> bool:
    """Return True if all files and folders in `inputs` (path -> digest) still have these digests."""
    return all(file_digest(Path(path)) == known for path, known in inputs.items())
