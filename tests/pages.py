"""The Markdown pages that users read: their code blocks, links and lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

NOT_WRITTEN_BY_HAND = {
    "docs/operators.md": "written by tests/kernels/opinfo_table.py: a row for each operator",
    "benchmarks/processors.md": "run_kernels.py prints its rows",
    "benchmarks/models/models.md": "written by benchmarks/models/run.py: a row for each model",
}

BLOCK = re.compile(
    r"^<!--\s*(?P<hidden>python|sh|cpp)\n(?P<hidden_code>.*?)^-->"
    r"|(?:^<!--\s*not run:(?P<reason>[^>]*?)-->\n+)?^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass
class Block:
    """A block of code of a page.

    `language` is the first word after the fence, `flags` are the others. `reason` says why a test does not run it, from
    a comment before it: `<!-- not run: REASON -->`. A comment that begins with a language is a block that readers do not
    see (`hidden`): code that runs, or for C++ what stands before the functions that the visible blocks are bodies of.
    """

    language: str
    code: str
    line: int
    flags: tuple[str, ...] = ()
    reason: str | None = None
    hidden: bool = False


def pages() -> list[Path]:
    """Every page whose examples are meant to be followed."""
    patterns = ("README.md", "docs/*.md", "docs/reference/*.md", "examples/**/README.md", "plugins/*/README.md",
                "plugins/*/docs/*.md")  # fmt: skip
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def markdown() -> list[Path]:
    """Every Markdown file of the project that people write."""
    patterns = ("*.md", "docs/**/*.md", "examples/**/*.md", "plugins/**/*.md", "benchmarks/**/*.md")
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    outside = ("build", ".venv", "third_party")
    return sorted(
        path
        for path in found
        if name_of(path) not in NOT_WRITTEN_BY_HAND and not set(path.relative_to(ROOT).parts) & set(outside)
    )


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in order, those in comments too."""
    text = page.read_text(encoding="utf-8")
    result = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["hidden"]:
            result.append(Block(match["hidden"], match["hidden_code"], line, hidden=True))
            continue
        language, *flags = match["info"].split() or [""]
        line = text.count("\n", 0, match.start("code")) + 1
        reason = match["reason"].strip() if match["reason"] is not None else None
        result.append(Block(language, match["code"], line, tuple(flags), reason))
    return result
