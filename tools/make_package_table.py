#!/usr/bin/env python3
"""Write `docs/design/packages.md`, the role of each package, from the docstrings; --check compares them."""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "design" / "packages.md"
HEAD = """# Packages

The role of each Python package, which is the first sentence of its docstring. Made by `tools/make_package_table.py`.
"""


def page() -> str:
    """Return the page: a table for edgecore, and one for each plugin."""
    sources = [ROOT / "src" / "edgecore", *sorted(ROOT.glob("plugins/*/src/*"))]
    return "\n".join([HEAD, *(table(source) for source in sources if source.is_dir())])


def table(source: Path) -> str:
    """Return the packages in a folder as a Markdown table."""
    lines = [f"## {source.name}", "", "| package | role |", "|---|---|"]
    for path in sorted(source.rglob("__init__.py"), key=lambda path: path.parent.parts):
        if "templates" not in path.parts:
            role = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n\n")[0].replace("\n", " ")
            lines.append(f"| `{path.parent.relative_to(source.parent).as_posix()}` | {role} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page, or compare it with the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with status 1 if the page is another one")
    if not parser.parse_args().check:
        DOCUMENT.write_text(page(), "utf-8")
    elif DOCUMENT.read_text("utf-8") != page():
        sys.exit(f"{DOCUMENT} is another page: run tools/make_package_table.py")


if __name__ == "__main__":
    main()
