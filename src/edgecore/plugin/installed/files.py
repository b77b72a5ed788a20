"""Find files of installed packages. Loading a `.pte` imports this module, so it imports little else at its start."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def own_library(folders: Iterable[str], name: str) -> str:
    """Return the absolute path of a package's own shared library: `lib/libNAME.so` (or `.dylib`, `.dll`).

    Args:
        folders: The package's `__path__`. An editable installation has several folders, one of them with the library.
        name: Name of the library without prefix and suffix, such as `edgecore_xnnpack`.

    Returns:
        The path of the library. If no folder has it, its path in the first folder, for an error message.
    """
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    paths = [os.path.join(os.path.abspath(folder), "lib", f"lib{name}{suffix}") for folder in folders]
    return next(filter(os.path.isfile, paths), paths[0])


def installed_file(package: str, *parts: str) -> str | None:
    """Return the absolute path of a file or folder of an installed package, without importing the package.

    Never searches the current directory, even if it is on `sys.path`: a downloaded folder with a model must not provide
    libraries.

    Args:
        package: Name of the package as it is imported.
        parts: Path below the package's folder. The last part may be an `fnmatch` pattern; of several matches the last
            one in alphabetical order is returned.

    Returns:
        The path; None if there is no such file or folder.
    """
    *folders, name = parts
    for root in _folders(package):
        folder = os.path.join(root, *folders)
        if not os.path.isdir(folder) or os.path.samefile(os.path.dirname(root), os.curdir):
            continue
        for match in _matching(folder, name):
            return os.path.join(folder, match)
    return None


def _folders(package: str) -> Iterator[str]:
    """Yield the folders in which a package may be: below entries of `sys.path`, then as the import system finds it."""
    for entry in sys.path:
        if os.path.isabs(entry):
            yield os.path.join(entry, package)
    from importlib.util import find_spec

    spec = find_spec(package)  # finds editable installations, too
    yield from map(os.path.abspath, (spec and spec.submodule_search_locations) or ())


def _matching(folder: str, name: str) -> list[str]:
    """Return the names in a folder that match the pattern `name`, in reverse alphabetical order."""
    if os.path.exists(os.path.join(folder, name)):
        return [name]
    from fnmatch import filter as matching

    return sorted(matching(os.listdir(folder), name), reverse=True)
