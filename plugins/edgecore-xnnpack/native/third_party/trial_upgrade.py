#!/usr/bin/env python3
"""Try how the patches bear another XNNPACK: change the sources as upstreams do, and apply the series to the result.

``python3 trial_upgrade.py SOURCES [--seeds N] [--verbose]``, where SOURCES is the unpacked, unpatched XNNPACK. Each kind
of change (``KINDS``) is drawn with each seed. A patch is applied to changed sources that have the patches before it, so
that each is judged alone. It applies, or it fails with a message. It applies *wrongly* if the result differs from the
same change of the patched sources; the exit status is then 1.

All changes are made by texts, not by line numbers: "insert before this line", "swap these two fields". So a change means
the same before and after a patch. New lines of a patch may name what a change renamed. The compiler finds that, so such
a patch is counted as one that applies, beside.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise
from pathlib import Path

import series

Tree = dict[str, str]  # the texts of files, by path
Change = Callable[[Tree], Tree]

_FUNCTION = re.compile(r"(?!typedef\b)[a-z][\w *]*?\b(\w+)\(")  # the first line of a function, or of its declaration
_STRUCT = re.compile(r"^(?:struct|union) \w+ \{\n(.*?)^\};\n", re.M | re.S)


@dataclass(frozen=True)
class Substitute:
    """A substitution in all files. It is idempotent, so that it also updates the new lines of a patch."""

    pattern: str
    new: str

    def __call__(self, tree: Tree) -> Tree:
        return {path: re.sub(self.pattern, self.new, text) for path, text in tree.items()}


@dataclass(frozen=True)
class Replace:
    """A text that occurs once in a file is replaced; where a patch has removed it, nothing changes."""

    path: str
    old: str
    new: str

    def __call__(self, tree: Tree) -> Tree:
        text = tree.get(self.path, "")
        return tree | {self.path: text.replace(self.old, self.new)} if text.count(self.old) == 1 else tree


@dataclass(frozen=True)
class SwapFields:
    """Two lines of a struct change places."""

    path: str
    struct: str  # its first line
    lines: tuple[str, str]

    def __call__(self, tree: Tree) -> Tree:
        if self.path not in tree:
            return tree
        head, start, rest = tree[self.path].partition(self.struct)
        body, end, tail = rest.partition("\n};\n")
        first, second = self.lines
        body = body.replace(first, "\0").replace(second, first).replace("\0", second)
        return tree | {self.path: head + start + body + end + tail}


@dataclass(frozen=True)
class Move:
    """A file gets another path."""

    path: str
    to: str

    def __call__(self, tree: Tree) -> Tree:
        return {self.to if path == self.path else path: text for path, text in tree.items()}


# ---- kinds of changes


def functions(tree: Tree) -> list[tuple[str, str, str]]:
    """Return the path, name and text of each function in the tree whose first line occurs once in its file."""
    result = []
    for path, text in sorted(tree.items()):
        lines = text.splitlines(keepends=True)
        counts = Counter(lines)
        for i, line in enumerate(lines):
            match = _FUNCTION.match(line)
            if match is None or counts[line] > 1:
                continue
            end = next((j for j in range(i, len(lines)) if lines[j] == "}\n" or lines[j].endswith(";\n")), i)
            if "{" in "".join(lines[i : end + 1]):
                end = next((j for j in range(end, len(lines)) if lines[j] == "}\n"), end)
                result.append((path, match[1], "".join(lines[i : end + 1])))
    return result


def rename_functions(tree: Tree, draw: random.Random) -> Iterator[Change]:
    names = draw.sample(sorted({name for _, name, _ in functions(tree)}), 20)
    yield Substitute(rf"\b({'|'.join(names)})\b", r"\1_v2")


def rename_includes(tree: Tree, draw: random.Random) -> Iterator[Change]:
    yield Substitute('#include "xnnpack/', '#include "src/xnnpack/')


def move_files(tree: Tree, draw: random.Random) -> Iterator[Change]:
    for path in draw.sample(sorted(tree), 5):
        yield Move(path, re.sub(r"([^/]+)$", r"moved/\1", path))


def reorder_fields(tree: Tree, draw: random.Random) -> Iterator[Change]:
    pairs = []
    for path, text in sorted(tree.items()):
        for struct in _STRUCT.finditer(text):
            start = struct[0].splitlines(keepends=True)[0]
            lines = [line for line in struct[1].splitlines(keepends=True) if re.fullmatch(r"  [\w* ]+;.*\n", line)]
            lines = [line for line in lines if struct[1].count(line) == 1]
            if text.count(start) == 1:
                pairs += [SwapFields(path, start, pair) for pair in pairwise(lines)]
    yield from draw.sample(pairs, min(20, len(pairs)))


def shift_lines(tree: Tree, draw: random.Random) -> Iterator[Change]:
    for path, name, text in draw.sample(functions(tree), 20):
        first = text.splitlines(keepends=True)[0]
        comment = "".join(f"// {name}, note {i}\n" for i in range(draw.randint(1, 40)))
        yield Replace(path, first, comment + first)


def add_twins(tree: Tree, draw: random.Random) -> Iterator[Change]:
    """Insert copies of functions under another name before these: other code with the same lines."""
    for path, name, text in draw.sample(functions(tree), 20):
        first = text.splitlines(keepends=True)[0]
        yield Replace(path, first, text.replace(name, f"{name}_twin", 1) + "\n" + first)


def edit_lines(tree: Tree, draw: random.Random) -> Iterator[Change]:
    lines = [(path, line) for path, _, text in functions(tree) for line in text.splitlines(keepends=True)[1:]]
    unique = [
        (path, line) for (path, line), count in Counter(lines).items() if count == 1 and tree[path].count(line) == 1
    ]
    for path, line in draw.sample(unique, 60):
        yield Replace(path, line, line.rstrip() + "  // changed\n")


MOVES = "5 moved files"  # the last, because the other changes name files
KINDS: dict[str, Callable[[Tree, random.Random], Iterator[Change]]] = {
    "20 renamed functions": rename_functions,
    "other paths of includes": rename_includes,
    MOVES: move_files,
    "20 pairs of reordered fields": reorder_fields,
    "60 changed lines": edit_lines,  # before the twins, in which these lines occur again
    "20 functions with lines before": shift_lines,
    "20 functions with a twin before": add_twins,
}
EVERYTHING = "all of these"


def draw_changes(kind: str, stages: list[Tree], seed: int) -> list[Change]:
    """Draw changes of a kind; ``stages`` are the sources before the first patch, and after each.

    A text that a patch makes occur twice is left alone: what its change means would depend on the patch.
    """
    draw = random.Random(f"{kind} {seed}")
    kinds = [name for name in KINDS if name != MOVES] + [MOVES] if kind == EVERYTHING else [kind]
    changes = [change for name in kinds for change in KINDS[name](stages[0], draw)]
    return [
        change
        for change in changes
        if not isinstance(change, Replace) or all(stage[change.path].count(change.old) <= 1 for stage in stages)
    ]


# ---- the trial


@dataclass(frozen=True)
class Result:
    """The outcome of a patch on changed sources."""

    patch: str
    outcome: str  # "applies", "applies, renames", "fails" or "WRONG"
    message: str = ""


def read_tree(sources: Path, patches: list[series.Patch]) -> Tree:
    """Return the files that the patches change."""
    paths = sorted({change.path for patch in patches for change in patch.files})
    return {path: (sources / path).read_text() for path in paths}


def apply_each(patches: list[series.Patch], tree: Tree) -> list[Tree]:
    """Return the tree before the first patch, and after each."""
    return list(accumulate(patches, lambda before, patch: before | patch.apply(before), initial=tree))


def judge(patches: list[series.Patch], stages: list[Tree], changes: list[Change]) -> Iterator[Result]:
    """Apply each patch to changed sources, and compare with the changed result."""

    def changed(tree: Tree, changes: list[Change]) -> Tree:
        return reduce(lambda result, change: change(result), changes, tree)

    substitutions: list[Change] = [change for change in changes if isinstance(change, Substitute)]
    for patch, before, after in zip(patches, stages, stages[1:], strict=False):
        paths = [change.path for change in patch.files]
        start, expected = (changed({path: tree[path] for path in paths}, changes) for tree in (before, after))
        try:
            result = start | patch.apply(start)
        except series.DoesNotApply as error:
            yield Result(patch.name, "fails", str(error))
            continue
        if result == expected:
            yield Result(patch.name, "applies")
        elif changed(result, substitutions) == changed(expected, substitutions):
            yield Result(patch.name, "applies, renames")
        else:
            yield Result(patch.name, "WRONG", f"{patch.name} lands in other code than it was written for")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--verbose", action="store_true", help="print the message of each patch that fails")
    arguments = parser.parse_args()
    patches = list(series.read())
    stages = apply_each(patches, read_tree(arguments.sources, patches))
    print(f"| change | of {len(patches)} x {arguments.seeds} patches: apply | with names to update | fail | wrong |")
    print("|---|---|---|---|---|")
    wrong = 0
    for kind in (*KINDS, EVERYTHING):
        results = [
            result
            for seed in range(arguments.seeds)
            for result in judge(patches, stages, draw_changes(kind, stages, seed))
        ]
        counts = Counter(result.outcome for result in results)
        wrong += counts["WRONG"]
        cells = [counts[outcome] for outcome in ("applies", "applies, renames", "fails", "WRONG")]
        print(f"| {kind} | {' | '.join(map(str, cells))} |", flush=True)
        for result in results if arguments.verbose else []:
            if result.message:
                print(f"  {result.message}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
