"""The entry points in our groups of the installed packages: `edgecore.backends`, `edgecore.kernels`, `edgecore.commands`.

Finds what `importlib.metadata.entry_points` finds, in its order, without importing it where packages lie in plain
folders: its imports take several times as long as loading a small file. The format of `entry_points.txt`:
https://packaging.python.org/en/latest/specifications/entry-points/
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
    """One entry point: `backend_id` is its name (the operators' namespace in group KERNELS, a command in COMMANDS), `value` the object
    (`module:attribute`) that it stands for.
    """

    def __init__(self, backend_id: str, value: str, read: Reader) -> None:
        self.backend_id = backend_id
        self.value = value
        self._read = read
        self._fields: dict[str, str] | None = None

    @property
    def distribution(self) -> str:
        """Normalised name of the package; read when asked for, as is the version."""
        return normalised(self._metadata("Name"))

    @property
    def version(self) -> str:
        """Version of the package."""
        return self._metadata("Version")

    def load(self) -> Any:
        """Import the object that `value` names."""
        module, _, attributes = self.value.partition("[")[0].partition(":")
        __import__(module.strip())
        found = sys.modules[module.strip()]
        for attribute in filter(None, attributes.strip().split(".")):
            found = getattr(found, attribute)
        return found

    def _metadata(self, key: str) -> str:
        if self._fields is None:
            self._fields = _metadata_fields(self._read)
        return self._fields.get(key) or "unknown"


def scan(group: str = GROUP) -> list[Provider]:
    """Every entry point of the group. Of a distribution that `sys.path` holds twice the first one counts."""
    found: list[Provider] = []
    seen = set()
    for name, read in _distributions():
        if name in seen:
            continue
        seen.add(name)
        text = read("entry_points.txt")
        if text and group in text:
            found += [Provider(backend_id, value, read) for backend_id, value in _group(text, group)]
    return found


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


def _distributions() -> Iterator[tuple[str, Reader]]:
    """Normalised name of each installed distribution, and its reader."""
    # PathFinder is of this module; any other finder of distributions has ways of its own to find them.
    builtin = "_frozen_importlib_external"
    if any(hasattr(finder, "find_distributions") and finder.__module__ != builtin for finder in sys.meta_path):
        yield from _of_importlib(sys.path)
        return
    for path in map(os.fsdecode, sys.path):
        try:
            # An .egg names its metadata folder otherwise.
            names = None if path.endswith(".egg") else os.listdir(path or ".")
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
                yield normalised(stem), _reader(os.path.join(path, name))


def _reader(folder: str) -> Reader:
    def read(name: str) -> str | None:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    return read


def _of_importlib(paths: Iterable[str]) -> Iterator[tuple[str, Reader]]:
    from importlib.metadata import distributions

    for distribution in distributions(path=list(paths)):
        yield normalised(_metadata_fields(distribution.read_text).get("Name", "")), distribution.read_text
