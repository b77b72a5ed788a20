#!/usr/bin/env python3
"""Write the table of passes in `docs/compiling.md` from `edgecore.passes.EDGE_PASSES`, or compare the two with --check."""

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
    lines += [f"| {one.stage} | `{one.name}` | {one.guarantee} | {one.when or 'always'} |" for one in EDGE_PASSES]
    return "\n".join(lines)


def with_table(text: str) -> str:
    """Return the text of the document with the current table between its two marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Write the table, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with status 1 if the document has another table")
    current = DOCUMENT.read_text("utf-8")
    made = with_table(current)
    if not parser.parse_args().check:
        DOCUMENT.write_text(made, "utf-8")
    elif made != current:
        sys.exit(f"{DOCUMENT} has another table of passes: run tools/make_pass_table.py")


if __name__ == "__main__":
    main()
