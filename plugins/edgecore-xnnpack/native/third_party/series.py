"""Apply our patches to XNNPACK's sources: the files that ``patches/series`` names, in this order.

They are ordinary patches, which ``git am`` takes as well. This module is stricter than the usual tools, so that no hunk
lands in other code than it was written for: the lines that a hunk replaces, with their context, must occur exactly once
in the function that the hunk's header names. The line numbers may differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

PATCHES = Path(__file__).with_name("patches")
_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@ ?(.*)\n")
_HEADING_LENGTH = 80  # of a hunk's header, as diff and git cut it off
# Lines of a file that git takes for headings, but that begin no function: entries of lists, and declarations. Others may
# be inserted before the entry that a patch was made beside.
_NO_FUNCTION = re.compile(r"\w+\(|.*;$")


class DoesNotApply(ValueError):
    """A patch that was written for other sources; the text says which, where, why, and what to do."""


@dataclass
class Hunk:
    """Lines ``old`` of a file, with context, and what replaces them."""

    line: int  # of the sources that the patch was made for
    heading: str  # the beginning of the function that the lines are part of, as git puts it into the hunk's header
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def find(self, lines: list[str]) -> int:
        """Return the index of ``old`` in the lines of a file. Raises DoesNotApply with the reason."""
        size = len(self.old)
        places = [i for i, line in enumerate(lines) if line == self.old[0] and lines[i : i + size] == self.old]
        headings = [heading_of(lines, place) for place in places]
        right = [place for place, heading in zip(places, headings, strict=True) if self._is_heading(heading)]
        if len(right) == 1:
            return right[0]
        if right:
            raise DoesNotApply(f"its lines occur {len(right)} times, from lines {right[0] + 1} and {right[1] + 1}")
        if places:
            raise DoesNotApply(f"its lines are now in '{headings[0]}'")
        present = set(lines)
        missing = [line.strip() for line in self.old if line not in present]
        raise DoesNotApply(f"this line is gone: {missing[0]}" if missing else "its lines no longer follow one another")

    def _is_heading(self, heading: str) -> bool:
        is_list = _NO_FUNCTION.match(self.heading) and _NO_FUNCTION.match(heading)
        return heading == self.heading or is_list is not None


@dataclass
class FileChange:
    """The hunks of a patch in one file."""

    path: str
    hunks: list[Hunk] = field(default_factory=list)

    def apply(self, text: str) -> str:
        """Return a file's text with the hunks applied. Raises DoesNotApply."""
        lines = text.splitlines(keepends=True)
        places: list[tuple[int, Hunk]] = []
        for number, hunk in enumerate(self.hunks, 1):
            try:
                places.append((hunk.find(lines), hunk))
            except DoesNotApply as error:
                where = f"hunk {number} of {self.path} (line {hunk.line}, in '{hunk.heading}')"
                raise DoesNotApply(f"{where}: {error}") from None
        places.sort(key=lambda place: place[0])
        for (before, hunk), (after, _) in pairwise(places):
            if before + len(hunk.old) > after:
                raise DoesNotApply(f"two hunks of {self.path} (line {hunk.line} and the next): their lines overlap now")
        for place, hunk in reversed(places):
            lines[place : place + len(hunk.old)] = hunk.new
        return "".join(lines)


@dataclass
class Patch:
    """A patch file: what it is for, and the files that it changes."""

    name: str
    header: str  # the text before the first file
    files: list[FileChange]

    def apply(self, texts: dict[str, str]) -> dict[str, str]:
        """Return the changed texts of the files that the patch changes, given the texts of all files by path.

        Raises DoesNotApply; ``texts`` stays as it is.
        """
        changed = {}
        for change in self.files:
            try:
                if change.path not in texts:
                    raise DoesNotApply(f"the file {change.path} is gone")
                changed[change.path] = change.apply(texts[change.path])
            except DoesNotApply as error:
                raise DoesNotApply(
                    f"{self.name} does not apply: {error}; port it to these sources (third_party/README.md)."
                ) from None
        return changed


def heading_of(lines: list[str], place: int) -> str:
    """Return what git writes into the header of a hunk that begins at ``place``: the last unindented line before."""
    for line in reversed(lines[:place]):
        if re.match(r"[A-Za-z_$]", line):
            return line.rstrip().encode()[:_HEADING_LENGTH].decode(errors="ignore").rstrip()
    return ""


def parse(name: str, text: str) -> Patch:
    """Read a patch. Raises ValueError for what this module does not apply, such as a new or renamed file."""
    header, *parts = re.split(r"^diff --git .*\n", text, flags=re.M)
    files = []
    for part in parts:
        names, *rest = re.split(r"^(?=@@ )", part, flags=re.M)
        match = re.fullmatch(r"(?:index .*\n)?--- a/(\S+)\n\+\+\+ b/(\S+)\n", names)
        if match is None or match[1] != match[2]:
            raise ValueError(f"{name} does more than to change files: {names.splitlines()[0]}")
        files.append(FileChange(match[1], [_hunk(name, hunk) for hunk in rest]))
    return Patch(name, header, files)


def _hunk(name: str, text: str) -> Hunk:
    header = _HEADER.match(text)
    if header is None:
        raise ValueError(f"{name} has a damaged hunk: {text.splitlines()[0]}")
    hunk = Hunk(int(header[1]), header[4].rstrip())
    for line in text[header.end() :].splitlines(keepends=True):
        if line[0] not in " -+":
            raise ValueError(f"{name} has a line that is none of a hunk: {line.rstrip()}")
        if line[0] in " -":
            hunk.old.append(line[1:])
        if line[0] in " +":
            hunk.new.append(line[1:])
    if (len(hunk.old), len(hunk.new)) != (int(header[2] or 1), int(header[3] or 1)):
        raise ValueError(f"{name} has a hunk of another length than its header says: {header[0].rstrip()}")
    return hunk


def read(folder: Path = PATCHES) -> Iterator[Patch]:
    """Yield the patches of the series."""
    for name in (folder / "series").read_text().split():
        yield parse(name, (folder / name).read_text())


def apply(source: Path, folder: Path = PATCHES) -> None:
    """Apply the series to the sources in a folder. Raises DoesNotApply, with the patches before applied."""
    for patch in read(folder):
        files = (change.path for change in patch.files)
        texts = {path: (source / path).read_text() for path in files if (source / path).is_file()}
        for path, text in patch.apply(texts).items():
            (source / path).write_text(text)
