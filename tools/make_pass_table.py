#!/usr/bin/env python3
"""Write the table of passes in `docs/compiling.md` from `edgecore.passes.EDGE_PASSES`; --check compares them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "compiling.md"
BEGIN, END = "<!-- passes: made by tools/make_pass_table.py -->", "<!-- end of passes -->"


def table() -> str:
    """Return the passes as a Markdown table."""
    from edgecore.passes import EDGE_PASSES

    lines = ["| stage | pass | guarantee | runs |", "|---|---|---|---|"]
    lines += [f"| {row.stage} | `{row.name}` | {row.guarantee} | {row.when or 'always'} |" for row in EDGE_PASSES]
    return "\n".join(lines)


def with_table(text: str) -> str:
    """Return the text of the document with the present table between the two marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Write the table, or compare it with the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with status 1 if the document has another table")
    current = DOCUMENT.read_text("utf-8")
    updated = with_table(current)
    if not parser.parse_args().check:
        DOCUMENT.write_text(updated, "utf-8")
    elif updated != current:
        sys.exit(f"{DOCUMENT} has another table of passes: run tools/make_pass_table.py")


if __name__ == "__main__":
    main()
