#!/usr/bin/env python3
"""Doxygen's input filter: the headers' plain `//` comments as documentation comments.

A comment before a declaration documents it, one after a declaration on its line (and the lines below that hold nothing
else) that declaration, and the first of a file the file. Text is shown as written: what doxygen would take for a
command or for HTML is escaped.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

COMMENT = re.compile(r"^(\s*)//(?!/)(.*)$")
TRAILING = re.compile(r"^(.*\S)\s+//(?!/)\s*(.*)$")


def escape(text: str) -> str:
    """Return text that doxygen shows as it is."""
    return re.sub(r"([\\@<>#&])", r"\\\1", text)


def documented(lines: list[str]) -> list[str]:
    """Return the lines with documentation comments."""
    result: list[str] = []
    in_header, trailing_column = True, -1
    for line in lines:
        if match := COMMENT.match(line):
            indent, text = match.groups()
            if text.startswith(" ---"):
                result.append("")
            elif len(indent) == trailing_column:
                result.append(f"{indent}///< {escape(text.strip())}")
            else:
                if in_header and not result:
                    result.append("/// \\file")
                result.append(f"{indent}///{escape(text)}")
            continue
        in_header = False
        trailing_column = -1
        if not line.startswith("#include") and (match := TRAILING.match(line)) and '"' not in match.group(2):
            trailing_column = line.index("//", len(match.group(1)))
            result.append(f"{match.group(1)}  ///< {escape(match.group(2))}")
        else:
            result.append(line)
    return result


if __name__ == "__main__":
    print("\n".join(documented(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())))
