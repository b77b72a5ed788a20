"""Text that is safe for terminals: names in model files may contain control characters."""

from __future__ import annotations

from collections.abc import Iterable


def printable(text: str) -> str:
    """Replace each unprintable character of a text, including line ends, by its Python escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def join_lines(lines: Iterable[str]) -> str:
    """Join lines for a terminal, with control characters and line ends in names escaped."""
    return "\n".join(printable(line) for line in lines)
