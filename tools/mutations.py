#!/usr/bin/env python3
"""Plant small faults in the Python sources, and count how many the tests catch. Outside of CI: a run takes hours.

    python tools/mutations.py select --seed 49 --also OTHER_TREE > tools/mutations.jsonl
    python tools/mutations.py mark HITS [--tree TREE]
    (run the tests of TREE: they write HITS)
    python tools/mutations.py unmark [--tree TREE]
    python tools/mutations.py run HITS [--tree TREE] [--part K/N] > report.txt

`select` draws faults in statements that both trees have, in functions of the same name. `mark` makes these statements,
in the packages installed in a tree, write to the file HITS which test executes them, child processes included, so that
`run` needs to run only these tests for a fault.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FAULTS = ROOT / "tools" / "mutations.jsonl"
SECONDS = 240
"""Time that the tests of one fault may take; a fault that no test has caught by then counts as escaped."""
ORIGINAL = ".unmarked"
"""Suffix of the copy of a marked file."""
TESTS = 100
"""Largest number of tests that run for one fault; the tests of the fault's package run first."""

_COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
                ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is"}  # fmt: skip
_OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*", ast.LShift: ">>", ast.RShift: "<<"}


@dataclass(frozen=True)
class Fault:
    """A fault in one line.

    Attributes:
        module: The name of the file, such as `planning.py`; folders may differ between trees.
        function: The qualified name of the function, such as `MemoryPlan.arenas`.
        line: The line without the fault, without indentation. It occurs once in the function.
        faulty: The line with the fault.
    """

    module: str
    function: str
    line: str
    faulty: str


def sources(tree: Path) -> list[Path]:
    """Return the Python sources of edgecore and of the plugins."""
    return sorted([*tree.glob("src/edgecore/**/*.py"), *tree.glob("plugins/*/src/**/*.py")])


def site_packages(tree: Path) -> Path:
    """Return the folder of the packages that are installed in a tree's .venv."""
    return next(tree.glob(".venv/lib/python3*/site-packages"))


def all_faults() -> list[Fault]:
    """Read the drawn faults; a fault's number is its index."""
    return [Fault(**json.loads(line)) for line in FAULTS.read_text(encoding="utf-8").splitlines()]


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield f"{prefix}{node.name}", node


def faults(path: Path) -> Iterator[tuple[Fault, int]]:
    """Yield all faults that a file can have, with their line numbers."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for name, function in functions(ast.parse(text)):
        body = [line.strip() for line in lines[function.lineno - 1 : function.end_lineno]]
        for node in executed_nodes(function):
            for begin, end, new in _replacements(node, lines):
                line = lines[node.lineno - 1]
                if body.count(line.strip()) == 1:
                    faulty = f"{line[:begin]}{new}{line[end:]}".strip()
                    yield Fault(path.name, name, line.strip(), faulty), node.lineno


def executed_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes below it except annotations, because no test can catch a fault in an annotation."""
    yield node
    for part, value in ast.iter_fields(node):
        if part not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from executed_nodes(child)


def _replacements(node: ast.AST, lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield begin, end and text of each replacement in the node's only line."""
    if getattr(node, "lineno", None) != getattr(node, "end_lineno", None):
        return
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        yield from _between(node.left, node.comparators[0], f" {_COMPARISONS[type(node.ops[0])]} ")
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        yield from _between(node.left, node.right, f" {_OPERATORS[type(node.op)]} ")
    elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
        yield from _between(*node.values, " or " if isinstance(node.op, ast.And) else " and ")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.col_offset, node.operand.col_offset, ""
    elif isinstance(node, ast.Constant) and type(node.value) in (int, bool) and lines[node.lineno - 1].isascii():
        new = not node.value if isinstance(node.value, bool) else node.value + 1
        yield node.col_offset, node.end_col_offset or 0, repr(new)


def _between(left: ast.expr, right: ast.expr, new: str) -> Iterator[tuple[int, int, str]]:
    if left.end_lineno == right.lineno and left.end_col_offset is not None:
        yield left.end_col_offset, right.col_offset, new


def select(seed: int, count: int, other: Path) -> list[Fault]:
    """Draw faults of this tree that the other one can have, too, at most one in each function."""
    elsewhere = {fault for path in sources(other) for fault, _ in faults(path)}
    common = [fault for path in sources(ROOT) for fault, _ in faults(path) if fault in elsewhere]
    random.Random(seed).shuffle(common)
    drawn: dict[tuple[str, str], Fault] = {}
    for fault in common:
        drawn.setdefault((fault.module, fault.function), fault)
    return list(drawn.values())[:count]


def place(fault: Fault, tree: Path) -> tuple[Path, int] | None:
    """Return a fault's file, from the name of its package on, and its line number; None if the tree lacks the line.

    Raises:
        LookupError: The tree has several such lines.
    """
    places = [
        (Path(*path.relative_to(tree).parts[path.relative_to(tree).parts.index("src") + 1 :]), number)
        for path in sources(tree)
        if path.name == fault.module
        for possible, number in faults(path)
        if possible == fault
    ]
    if len(places) > 1:
        raise LookupError(f"{fault} is in {len(places)} places")
    return places[0] if places else None


def mark(hits: Path, tree: Path) -> None:
    """Make the installed lines of all faults append "INDEX TEST" to the file `hits` when a test executes them."""
    packages = site_packages(tree)
    (packages / "edgecore_mutations.py").write_text(
        textwrap.dedent(f"""
            import os
            from pathlib import Path

            seen = set()

            def hit(index):
                line = f"{{index}} {{os.environ.get('PYTEST_CURRENT_TEST', '').rpartition(' (')[0]}}\\n"
                if line not in seen:
                    seen.add(line)
                    with Path({str(hits)!r}).open("a", encoding="utf-8") as file:
                        file.write(line)
            """),
        encoding="utf-8",
    )
    marks: dict[Path, list[tuple[int, int]]] = {}
    for index, fault in enumerate(all_faults()):
        where = place(fault, tree)
        if where is not None:
            marks.setdefault(packages / where[0], []).append((where[1], index))
    for path, places in marks.items():
        original = path.read_text(encoding="utf-8")
        path.with_suffix(ORIGINAL).write_text(original, encoding="utf-8")
        lines = original.splitlines(keepends=True)
        for number, index in sorted(places, reverse=True):
            first, indentation = statement_at(ast.parse(original), number)
            call = f"__import__('edgecore_mutations').hit({index})"
            lines.insert(first - 1, f"{' ' * indentation}{call}\n")
        path.write_text("".join(lines), encoding="utf-8")


def statement_at(node: ast.Module, number: int) -> tuple[int, int]:
    """Return the line and the column of the innermost statement around a line that another statement may precede."""
    best = (0, 0)
    for statement in ast.walk(node):
        if isinstance(statement, ast.If) and len(statement.orelse) == 1:
            branch = statement.orelse[0]
            if isinstance(branch, ast.If) and branch.col_offset == statement.col_offset:
                branch.lineno = 0  # skip an `elif`: no statement can stand before it
        if isinstance(statement, ast.stmt) and best[0] < statement.lineno <= number <= (statement.end_lineno or 0):
            best = (statement.lineno, statement.col_offset)
    return best


def unmark(tree: Path) -> None:
    """Undo `mark`."""
    for path in site_packages(tree).rglob(f"*{ORIGINAL}"):
        path.replace(path.with_suffix(".py"))


def tests_of(index: int, hits: Path, path: Path) -> list[str]:
    """Return the tests that execute the line of fault number `index`, the tests of its package first."""
    lines = {line.partition(" ")[::2] for line in hits.read_text(encoding="utf-8").splitlines()}
    tests = sorted({test for number, test in lines if test and int(number) == index})
    random.Random(0).shuffle(tests)
    return sorted(tests, key=lambda test: not set(path.parts[1:-1]) & set(Path(test.partition("::")[0]).parts))


def is_caught(fault: Fault, tree: Path, tests: list[str], place: tuple[Path, int]) -> str:
    """Plant a fault in the installed package, run tests, and mend it again.

    Returns:
        "caught by" the first test that fails with the fault and passes without it, or "escaped: " and the reason.
    """
    if not tests:
        return "escaped: no test executes the line"
    path = site_packages(tree) / place[0]
    original = path.read_text(encoding="utf-8")
    lines = original.splitlines(keepends=True)
    lines[place[1] - 1] = lines[place[1] - 1].replace(fault.line, fault.faulty)
    try:
        path.write_text("".join(lines), encoding="utf-8")
        failed, reason = first_failure(tree, tests[:TESTS])
    finally:
        path.write_text(original, encoding="utf-8")
    if failed and first_failure(tree, [failed])[0]:
        return f"{failed} fails without the fault, too: mend it first"
    return f"caught by {failed}" if failed else f"escaped: {reason}"


def first_failure(tree: Path, tests: list[str]) -> tuple[str | None, str]:
    """Run tests until one fails, without those that the tree lacks.

    Returns:
        The test that failed, or None; and the last line that pytest printed.
    """
    command = [".venv/bin/python", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *tests]
    try:
        done = subprocess.run(command, cwd=tree, capture_output=True, check=False, timeout=SECONDS, text=True)
    except subprocess.TimeoutExpired:
        return None, f"no test failed in {SECONDS} s"
    output = done.stdout + done.stderr
    if done.returncode == pytest.ExitCode.USAGE_ERROR:
        missing = set(re.findall(r"^ERROR: not found: .*?/((?:tests|plugins)/.*)$", output, re.MULTILINE))
        kept = [test for test in tests if test not in missing]
        return first_failure(tree, kept) if 0 < len(kept) < len(tests) else (None, output.strip().splitlines()[-1])
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?::.*?)(?: - |$)", output, re.MULTILINE)
    if failed is None and done.returncode != pytest.ExitCode.OK:
        return None, f"pytest ends with {done.returncode}: {output[-300:]}"
    return (failed[1] if failed else None), output.strip().splitlines()[-1]


def main() -> None:
    """Draw faults, or run the tests with each of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("select")
    drawing.add_argument("--seed", type=int, default=49)
    drawing.add_argument("--count", type=int, default=60)
    drawing.add_argument("--also", type=Path, required=True, help="another tree, which can have the faults, too")
    marking = commands.add_parser("mark")
    running = commands.add_parser("run")
    for command in (marking, running):
        command.add_argument("hits", type=Path, help="the file that the tests write")
    running.add_argument("--part", default="0/1", help="K/N: only the faults K, K + N, ...")
    for command in (marking, running, commands.add_parser("unmark")):
        command.add_argument("--tree", type=Path, default=ROOT, help="a tree with a .venv of its own")
    arguments = parser.parse_args()
    if arguments.command == "select":
        drawn = select(arguments.seed, arguments.count, arguments.also)
        print("\n".join(json.dumps(asdict(fault)) for fault in drawn))
    elif arguments.command == "mark":
        mark(arguments.hits.absolute(), arguments.tree)
    elif arguments.command == "unmark":
        unmark(arguments.tree)
    else:
        first, step = map(int, arguments.part.split("/"))
        for index, fault in list(enumerate(all_faults()))[first::step]:
            where = place(fault, arguments.tree)
            if where is None:
                print(index, "gone: the tree has no such line", fault, flush=True)
                continue
            tests = tests_of(index, arguments.hits, where[0])
            print(index, is_caught(fault, arguments.tree, tests, where), f"({len(tests)} tests)", fault, flush=True)


if __name__ == "__main__":
    main()
