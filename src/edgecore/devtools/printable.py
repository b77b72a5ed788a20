"""Text for terminals: names come from model files, which may hold characters that control the terminal."""

from __future__ import annotations

from collections.abc import Iterable


def printable(text: str) -> str:
    """Return a text in which each character that is not printable, also the end of a line, is a Python escape."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def join_lines(lines: Iterable[str]) -> str:
    """Join the lines of a table for a terminal; a name in them can neither control it nor begin a line."""
    return "\n".join(printable(line) for line in lines)
