#!/usr/bin/env python3
"""Write `docs/findings.md` and the table of `findings/README.md` from the heads of the scripts in `findings/`.

With --check only compare them. A head is the comment at the top of a script: a sentence with the fact, then paragraphs
that begin with the labels of `LABELS`. The page also has the facts of `findings/elsewhere.json`, whose scripts are not
here.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import textwrap
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "findings.md"
README = ROOT / "findings" / "README.md"
ELSEWHERE = ROOT / "findings" / "elsewhere.json"
BEGIN, END = "<!-- findings: made by tools/make_findings_page.py -->", "<!-- end of findings -->"
LABELS = ("Expected", "What happens", "What to do", "edgecore")
INTRODUCTION = """# Findings about other tools

What surprised us about tools around edgecore. Each fact has a script in the folder `findings/`, which installs pinned
packages and shows the behaviour without edgecore; the script fails if the behaviour has changed. Scripts of some facts
are not in this repository. `tools/make_findings_page.py` makes this page from the heads of the scripts and from
`findings/elsewhere.json`.
"""


@dataclass(frozen=True)
class Finding:
    """The head of a script.

    Attributes:
        name: Name of the script without `.sh`; its first word is the tool.
        fact: The first sentence.
        parts: Text by label.
        packages: The packages that the script installs, with versions.
    """

    name: str
    fact: str
    parts: dict[str, str]
    packages: tuple[str, ...]


def read(script: Path) -> Finding:
    """Read a script's head.

    Raises:
        ValueError: A label is missing or not in its place, or the script does not install packages by `environment`.
    """
    lines = script.read_text("utf-8").splitlines()
    head = "\n".join(line[2:] for line in lines[1 : lines.index("set -eu")])
    fact, *rest = re.split(rf"^({'|'.join(LABELS)})(?= \(|:)", head, flags=re.MULTILINE)
    if tuple(rest[::2]) != LABELS:
        raise ValueError(
            f"{script}: the paragraphs of the head must be {', '.join(LABELS)}, not {', '.join(rest[::2])}"
        )
    parts = {label: " ".join(text.split()).removeprefix(": ") for label, text in zip(LABELS, rest[1::2], strict=True)}
    installs = [line for line in lines if '"$here/environment" "$folder"' in line]
    if not installs:
        raise ValueError(f"{script}: no line calls environment with the packages")
    packages = shlex.split(installs[0].split('"$folder"')[1].rstrip(")"))
    return Finding(script.stem, " ".join(fact.split()), parts, tuple(packages))


def page(findings: list[Finding], elsewhere: list[dict[str, str]]) -> str:
    """Return the page, grouped by tool."""
    lines = [INTRODUCTION]
    by_tool = {
        tool: list(group) for tool, group in groupby(findings, key=lambda finding: finding.name.partition("-")[0])
    }
    for tool in sorted({*by_tool, *(fact["tool"] for fact in elsewhere)}):
        lines += [f"## {tool}", ""]
        for finding in by_tool.get(tool, []):
            lines += [f"### {finding.fact.rstrip('.')}", ""]
            for label in LABELS:
                text = finding.parts[label]
                lines.append(_item(f"{label}**{' ' if text.startswith('(') else ': '}{text}"))
            lines += [_item(f"Script**: `findings/{finding.name}.sh`, with {', '.join(finding.packages)}"), ""]
        for fact in (fact for fact in elsewhere if fact["tool"] == tool):
            lines += [f"### {fact['fact']}", ""]
            lines += [_item(f"What happens** ({fact['versions']}): {fact['behaviour']}")]
            lines += [_item(f"edgecore**: {fact['edgecore']}"), _item("Script**: not in this repository"), ""]
    return "\n".join(lines).rstrip() + "\n"


def _item(text: str) -> str:
    return textwrap.fill(f"- **{text}", 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def table(findings: list[Finding]) -> str:
    """Return the table of the README."""
    lines = ["| fact | versions | edgecore |", "|---|---|---|"]
    lines += [
        f"| {row.fact} (`{row.name}`) | {', '.join(row.packages)} | {row.parts['edgecore']} |" for row in findings
    ]
    return "\n".join(lines)


def main() -> None:
    """Write the page and the table, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a file has other contents")
    check = parser.parse_args().check
    findings = [read(script) for script in sorted(README.parent.glob("*.sh"))]
    elsewhere = json.loads(ELSEWHERE.read_text("utf-8"))
    before, rest = README.read_text("utf-8").split(BEGIN)
    readme = f"{before}{BEGIN}\n{table(findings)}\n{END}{rest.split(END)[1]}"
    for path, text in ((PAGE, page(findings, elsewhere)), (README, readme)):
        if not check:
            path.write_text(text, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != text:
            sys.exit(f"{path} differs from the heads of the scripts: run tools/make_findings_page.py")


if __name__ == "__main__":
    main()
