"""The entry points in our groups of the installed packages: `edgecore.backends`, `edgecore.kernels`, `edgecore.commands`.

Finds what `importlib.metadata.entry_points` finds, in its order, without importing it where packages lie in plain
folders: its imports take several times as long as loading a small file. The format of `entry_points.txt`:
https://packaging.python.org/en/latest/specifications/entry-points/

One difference: the current directory is passed over where nobody named it, and plugins are not imported from there. A
folder that somebody unpacked must not become a backend because a shell stands in it. See `_unnamed`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Reader = Callable[[str], str | None]
    """The text of a file of the distribution's metadata folder, None if there is none."""

GROUP = "edgecore.backends"
KERNELS = "edgecore.kernels"
"""Named after the namespace of the operators; the value is a function that gives the library's absolute path."""
COMMANDS = "edgecore.commands"
"""Named after a command of `edgecore`: see `edgecore.cli.plugin_commands`."""


class Provider:
    """One entry point of an installed package.

    Args:
        name: Name of the entry point: a backend_id in GROUP, a namespace of operators in KERNELS, a command in COMMANDS.
        value: The object that it refers to, as `module:attribute`.
        location: The folder or file of `sys.path` that holds the package.
        read: Returns the text of a file of the package's metadata.
    """

    def __init__(self, name: str, value: str, location: str, read: Reader) -> None:
        self.name = name
        self.value = value
        self.location = location
        self.read = read
        self._fields: dict[str, str] | None = None

    @property
    def distribution(self) -> str:
        """Normalised name of the package; read when asked for, as is the version."""
        return normalised(self._metadata("Name"))

    @property
    def version(self) -> str:
        """Version of the package."""
        return self._metadata("Version")

    @property
    def module(self) -> str:
        """Name of the module that `value` names."""
        return self.value.partition("[")[0].partition(":")[0].strip()

    def load(self) -> Any:
        """Import the object that `value` names."""
        _, _, attributes = self.value.partition("[")[0].partition(":")
        _import(self.module)
        found = sys.modules[self.module]
        for attribute in filter(None, attributes.strip().split(".")):
            found = getattr(found, attribute)
        return found

    def _metadata(self, key: str) -> str:
        if self._fields is None:
            self._fields = _metadata_fields(self.read)
        return self._fields.get(key) or "unknown"


def scan(group: str = GROUP) -> list[Provider]:
    """Every entry point of the group. Of a distribution that `sys.path` holds twice the first one counts."""
    found: list[Provider] = []
    seen = set()
    for distribution, location, read in _distributions():
        if distribution in seen:
            continue
        seen.add(distribution)
        text = read("entry_points.txt")
        if text and group in text:
            found += [Provider(name, value, location, read) for name, value in _group(text, group)]
    return found


def copies(distribution: str) -> list[tuple[str, str]]:
    """(version, location) of each installed copy of a distribution, given by its normalised name; the first one counts."""
    found = [(_metadata_fields(read), location) for name, location, read in _distributions() if name == distribution]
    return [(fields.get("Version", "unknown"), location) for fields, location in found]


def normalised(distribution: str) -> str:
    """The name as PEP 503 has it."""
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
    """`import module`, but not from the current directory."""
    left_out = [(index, sys.path[index]) for index in _unnamed()]
    for index, _ in reversed(left_out):
        del sys.path[index]
    try:
        __import__(module)
    finally:
        for index, entry in left_out:
            sys.path.insert(index, entry)


def _unnamed() -> list[int]:
    """Indices in `sys.path` of the current directory where the interpreter put it, and nobody meant a place of packages.

    They are empty entries (`python -c`, a prompt), the first entry of `python -m`, and what became of an empty part of
    PYTHONPATH (`PYTHONPATH=:/more`). Any other entry counts, such as the folder of a script or one that PYTHONPATH or a
    `.pth` file names, also if it is the current directory.
    """
    found = [index for index, entry in enumerate(sys.path) if not entry]
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    by_module = sys.path and _runs_module() and not getattr(sys.flags, "safe_path", sys.flags.isolated)
    by_part = len(parts) > 1 and "" in parts and not sys.flags.ignore_environment
    if not by_module and not by_part:
        return found
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        return found
    if by_module and sys.path[0] == here:
        found.insert(0, 0)
    if by_part and here not in [os.path.abspath(part) for part in parts if part]:
        start = 1 if found[:1] == [0] else 0
        found += [index for index in range(start, len(sys.path)) if sys.path[index] == here][:1]
    return sorted(found)


def _runs_module() -> bool:
    """Whether this is `python -m`; the main module of a folder or an archive is called `__main__`."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name != "__main__"


def searched() -> list[str]:
    """The entries of `sys.path` that packages are searched in."""
    unnamed = _unnamed()
    return [os.fsdecode(entry) for index, entry in enumerate(sys.path) if index not in unnamed]


def _distributions() -> Iterator[tuple[str, str, Reader]]:
    """Normalised name of each installed distribution, the entry of `sys.path` that holds it, and its reader."""
    # PathFinder is of this module; any other finder of distributions has ways of its own to find them.
    builtin = "_frozen_importlib_external"
    if any(hasattr(finder, "find_distributions") and finder.__module__ != builtin for finder in sys.meta_path):
        yield from _of_importlib(searched())
        return
    for path in searched():
        try:
            # An .egg names its metadata folder otherwise.
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
        # Of a zip file this is the file itself: a location is for people to read.
        yield name, os.path.normpath(str(distribution.locate_file(""))), distribution.read_text
