"""Find the entry points of installed packages: groups `edgecore.backends`, `edgecore.kernels`, `edgecore.commands`.

The result is the same as from `importlib.metadata.entry_points`, in the same order. But importing `importlib.metadata`
takes several times as long as loading a small file. So this module reads `entry_points.txt` itself if packages are
plain folders. Format: https://packaging.python.org/en/latest/specifications/entry-points/

There is one difference: a current directory that Python itself added to `sys.path` is skipped, and plugins are not
imported from there. Without this, a downloaded folder would become a backend just because it is the current directory.
See `_implicit_entries`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Reader = Callable[[str], str | None]
    """Function from the name of a file in a distribution's metadata folder to its text; None if it does not exist."""

GROUP = "edgecore.backends"
KERNELS = "edgecore.kernels"
"""Group for libraries of kernels. An entry is named after a namespace of custom operators, or after a single operator;
its value is a function that returns the absolute path of the library.
"""
COMMANDS = "edgecore.commands"
"""Group for commands of the `edgecore` command line. An entry has the name of its command: see
`edgecore.cli.plugin_commands`.
"""


class Provider:
    """One entry point of an installed package.

    Args:
        name: Name of the entry point: a backend id (GROUP), a namespace or operator (KERNELS), a command (COMMANDS).
        value: The object that the entry point refers to, as `module:attribute`.
        location: The entry of `sys.path` (folder or archive) that contains the package.
        read: Returns the text of a file of the package's metadata, or None.
    """

    def __init__(self, name: str, value: str, location: str, read: Reader) -> None:
        self.name = name
        self.value = value
        self.location = location
        self.read = read
        self._fields: dict[str, str] | None = None

    @property
    def distribution(self) -> str:
        """Normalised name of the package, read from the metadata file at the first use."""
        return normalised(self._metadata("Name"))

    @property
    def version(self) -> str:
        """Version of the package."""
        return self._metadata("Version")

    @property
    def module(self) -> str:
        """The module part of `value`."""
        return self.value.partition("[")[0].partition(":")[0].strip()

    def load(self) -> Any:
        """Import the object that `value` names."""
        _, _, attributes = self.value.partition("[")[0].partition(":")
        _import(self.module)
        loaded = sys.modules[self.module]
        for attribute in filter(None, attributes.strip().split(".")):
            loaded = getattr(loaded, attribute)
        return loaded

    def _metadata(self, key: str) -> str:
        if self._fields is None:
            self._fields = _metadata_fields(self.read)
        return self._fields.get(key) or "unknown"


def scan(group: str = GROUP) -> list[Provider]:
    """List the entry points of a group.

    If `sys.path` contains several copies of a package, only the first counts, because Python imports it.
    """
    providers: list[Provider] = []
    seen = set()
    for distribution, location, read in _distributions():
        if distribution in seen:
            continue
        seen.add(distribution)
        text = read("entry_points.txt")
        if text and group in text:
            providers += [Provider(name, value, location, read) for name, value in _group(text, group)]
    return providers


def copies(distribution: str) -> list[tuple[str, str]]:
    """Return (version, location) of each installed copy of a distribution. Python imports the first copy.

    Args:
        distribution: Normalised name of the distribution.
    """
    metadata = [(_metadata_fields(read), location) for name, location, read in _distributions() if name == distribution]
    return [(fields.get("Version", "unknown"), location) for fields, location in metadata]


def normalised(distribution: str) -> str:
    """Normalise the name of a distribution as PEP 503 defines: lower case, and runs of `-`, `_`, `.` become one `-`."""
    return "-".join(filter(None, distribution.lower().replace("_", "-").replace(".", "-").split("-")))


def _metadata_fields(read: Reader) -> dict[str, str]:
    head = (read("METADATA") or read("PKG-INFO") or "").partition("\n\n")[0]
    pairs = (line.partition(":") for line in head.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def _group(text: str, group: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[] ")
        elif section == group and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()


def _import(module: str) -> None:
    """Import a module, but not from the current directory if Python itself added that to `sys.path`."""
    removed = [(index, sys.path[index]) for index in _implicit_entries()]
    for index, _ in reversed(removed):
        del sys.path[index]
    try:
        __import__(module)
    finally:
        for index, entry in removed:
            sys.path.insert(index, entry)


def _implicit_entries() -> list[int]:
    """Return the indices in `sys.path` at which the current directory is, although the user did not ask for it.

    Python adds it as an empty entry (`python -c`, the prompt), as the first entry of `python -m`, and for an empty part
    of PYTHONPATH (`PYTHONPATH=:/more`). All other entries are explicit, even if they are the current directory: the
    folder of a script, or a folder that PYTHONPATH or a `.pth` file names.
    """
    implicit = [index for index, entry in enumerate(sys.path) if not entry]
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    by_module = sys.path and _runs_module() and not getattr(sys.flags, "safe_path", sys.flags.isolated)
    by_pythonpath = len(parts) > 1 and "" in parts and not sys.flags.ignore_environment
    if not by_module and not by_pythonpath:
        return implicit
    try:
        here = os.getcwd()
    except OSError:  # the current directory no longer exists
        return implicit
    if by_module and sys.path[0] == here:
        implicit.insert(0, 0)
    if by_pythonpath and here not in [os.path.abspath(part) for part in parts if part]:
        start = 1 if implicit[:1] == [0] else 0
        implicit += [index for index in range(start, len(sys.path)) if sys.path[index] == here][:1]
    return sorted(implicit)


def _runs_module() -> bool:
    """Return True for `python -m MODULE`; False if MODULE is a folder or archive: then its spec is named `__main__`."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name != "__main__"


def searched() -> list[str]:
    """Return the entries of `sys.path`, without a current directory that Python itself added."""
    implicit = _implicit_entries()
    return [os.fsdecode(entry) for index, entry in enumerate(sys.path) if index not in implicit]


def _distributions() -> Iterator[tuple[str, str, Reader]]:
    """Yield (normalised name, entry of `sys.path`, reader of metadata files) of each installed distribution."""
    # This module does the same as Python's own PathFinder, which searches the folders of `sys.path`. If another finder
    # also provides distributions (an editable installation may add such a finder), let importlib.metadata ask all
    # finders.
    builtin = "_frozen_importlib_external"
    if any(hasattr(finder, "find_distributions") and finder.__module__ != builtin for finder in sys.meta_path):
        yield from _of_importlib(searched())
        return
    for path in searched():
        try:
            # In an .egg the metadata folder is called EGG-INFO: leave it to importlib.metadata.
            names = None if path.endswith(".egg") else os.listdir(path)
        except NotADirectoryError:
            names = None
        except OSError:
            continue
        if names is None:
            yield from _of_importlib([path])
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                stem = name.rpartition(".")[0].partition("-")[0]
                yield normalised(stem), path, _reader(os.path.join(path, name))


def _reader(folder: str) -> Reader:
    def read(name: str) -> str | None:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    return read


def _of_importlib(paths: Iterable[str]) -> Iterator[tuple[str, str, Reader]]:
    from importlib.metadata import distributions

    for distribution in distributions(path=list(paths)):
        name = normalised(_metadata_fields(distribution.read_text).get("Name", ""))
        # For a zip file, locate_file("") is the path of the archive. The location is only shown to users.
        yield name, os.path.normpath(str(distribution.locate_file(""))), distribution.read_text
