"""Write src/composition.inc: what Unicode's normal form C needs, from Python's `unicodedata`.

Usage: python make_composition.py
"""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

HANGUL = range(0xAC00, 0xD7A4)
"""Syllables, which are computed."""


def rows() -> tuple[list[str], list[str]]:
    """Return the decompositions, and the classes of combining characters as ranges."""
    decompositions, classes = [], []
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        parts = unicodedata.decomposition(character).split()
        if parts and not parts[0].startswith("<") and code not in HANGUL:
            first, second = int(parts[0], 16), int(parts[1], 16) if len(parts) > 1 else 0
            composes = unicodedata.normalize("NFC", character) == character
            decompositions.append(f"{{0x{code:X}, 0x{first:X}, 0x{second:X}, {str(composes).lower()}}},")
        if combining := unicodedata.combining(character):
            if classes and classes[-1][1] == code - 1 and classes[-1][2] == combining:
                classes[-1][1] = code
            else:
                classes.append([code, code, combining])
    return decompositions, [f"{{0x{first:X}, 0x{last:X}, {value}}}," for first, last, value in classes]


def lines(items: list[str]) -> str:
    """Return the items in lines of at most 120 characters."""
    text, line = "", "   "
    for item in items:
        if len(line) + 1 + len(item) > 120:
            text, line = f"{text}{line}\n", "   "
        line += f" {item}"
    return f"{text}{line}\n"


def main() -> None:
    decompositions, classes = rows()
    Path(__file__).with_name("src").joinpath("composition.inc").write_text(
        f"// Written by make_composition.py from Unicode {unicodedata.unidata_version}.\n"
        f"constexpr Decomposition kDecompositions[] = {{\n{lines(decompositions)}}};\n\n"
        f"constexpr CombiningClass kClasses[] = {{\n{lines(classes)}}};\n"
    )


if __name__ == "__main__":
    main()
