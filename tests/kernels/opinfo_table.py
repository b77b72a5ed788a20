"""Writes docs/operators.md: what PyTorch's operator database says about each kernel, and which tests cover the rest.

python tests/kernels/opinfo_table.py LIBRARY [--jobs 2] [--samples N] [--references N] [--others N]

LIBRARY is libedgecore_kernels_test.so of a build. With the default extent this takes every sample of every entry.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOC = ROOT / "docs" / "operators.md"
PROFILE = ROOT / "src" / "edgecore" / "format" / "profiles" / "executorch-1.5.txt"
TESTS = ROOT / "tests" / "kernels"
NONE = "-"
ALL = 1_000_000
LEAST = 0.95  # of the calls of every operator

# Why calls of an operator do not agree with eager PyTorch; an operator without an entry has no failing call.
REASONS: dict[str, str] = {
    "aten::grid_sampler_2d.out": "float16: eager gives NaN at some places of large images, float64 none",
    "aten::native_dropout.out": "random numbers of another generator; test_random.py has what is promised",
    "aten::rand.out": "random numbers of another generator; test_random.py has what is promised",
    "aten::randn.out": "random numbers of another generator; test_random.py has what is promised",
}


@dataclass
class Measured:
    """What the walk found for one operator."""

    dtypes: set[str] = field(default_factory=set)
    passed: int = 0
    failed: int = 0
    first_failures: list[str] = field(default_factory=list)


def listed() -> list[str]:
    """The operators that the runtime profile allows."""
    return [line.strip() for line in PROFILE.read_text().splitlines() if "::" in line]


def own_tests() -> dict[str, list[str]]:
    """Operator -> test files of this folder that name it."""
    found: dict[str, list[str]] = {}
    texts = {path.name: path.read_text() for path in sorted(TESTS.glob("test_*.py"))}
    for name in listed():
        exact = re.compile(re.escape(name) + r"(?![\w.])")
        found[name] = [file for file, text in texts.items() if exact.search(text)]
    return found


def row(name: str, measured: Measured, tests: list[str]) -> str:
    tried = measured.passed + measured.failed
    if tried == 0:
        return f"| `{name}` | {NONE} | {NONE} | {NONE} | {', '.join(tests) or NONE} |"
    dtypes = ", ".join(sorted(measured.dtypes)) or NONE
    reason = REASONS.get(name, "unexplained") if measured.failed else NONE
    return f"| `{name}` | {dtypes} | {measured.passed} / {tried} | {reason} | {', '.join(tests) or NONE} |"


def extent_line(samples: int, references: int, others: int) -> str:
    if min(samples, references, others) >= ALL:
        return "Extent of this run: every sample."
    first = "every sample" if samples >= ALL else f"the first {samples} samples"
    then = "every reference input" if references >= ALL else f"{references} reference inputs"
    return (
        f"Extent of this run: per entry and layout {first} and {then} of float32 and int64, and at most {others} of each"
        " for every other dtype."
    )


def render(measured: dict[str, Measured], extent: str) -> str:
    tests = own_tests()
    names = listed()
    reached = [n for n in names if measured[n].passed + measured[n].failed]
    good = sum(m.passed for m in measured.values())
    tried = good + sum(m.failed for m in measured.values())
    lines = [
        "# Operators",
        "",
        "Written by `python tests/kernels/opinfo_table.py LIBRARY`; do not edit. Each call of a listed operator that",
        "a sample of PyTorch's operator database (`op_db`: `sample_inputs` and `reference_inputs` of every entry, seeded)",
        "dispatches to is repeated on the kernel, contiguous and strided (channels last for four dims), and compared with",
        "eager PyTorch. Integers, booleans and moves must be equal. Floating-point results pass within the default",
        "tolerance of `torch.testing.assert_close`, or with an error against float64 of at most twice eager's (or one unit",
        "in the last place of the largest value). Operators whose calls the samples never make have tests of their own.",
        "",
        f"{len(reached)} of {len(names)} operators are reached by a sample; {good} of {tried} calls agree.",
        "",
        extent,
        "",
        "| operator | dtypes of the first input | calls passed / tried | why the rest fails | own tests |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(row(n, measured[n], tests[n]) for n in names), ""])


def extent_of(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("Extent of this run: "))


def read_measured(text: str) -> dict[str, Measured]:
    """The figures of a written table, so that everything else in it can be checked without the long walk."""
    found = {name: Measured() for name in listed()}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 5 or " / " not in cells[2] or not cells[0].startswith("`"):
            continue
        name = cells[0].strip("`")
        passed, tried = (int(number) for number in cells[2].split(" / "))
        dtypes = set() if cells[1] == NONE else set(cells[1].split(", "))
        found[name] = Measured(dtypes, passed, tried - passed)
    return found


def measure_entry(task: tuple[int, str, int, int, int]) -> tuple[str, dict[str, Measured], float]:
    """Walks one entry of the database. In a worker process."""
    import torch
    from checker import Catalog, Checker
    from native import Library
    from opinfo_walk import Extent, entries, walk

    index, library, samples, references, others = task
    torch.set_num_threads(1)
    began = time.process_time()
    checker = Checker(Catalog(Library(Path(library))))
    entry = entries()[index]
    walk(entry, checker, Extent(samples, references, others))
    found: dict[str, Measured] = {}
    for name in set(checker.passed) | set(checker.failed):
        failures = checker.failed.get(name, [])
        dtypes = {str(d)[6:] for d in checker.dtypes.get(name, ())}
        found[name] = Measured(dtypes, checker.passed[name], len(failures), failures[:2])
    return entry.name, found, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=ALL, help="of an entry, for float32 and int64")
    parser.add_argument("--references", type=int, default=ALL, help="of an entry, for float32 and int64")
    parser.add_argument("--others", type=int, default=ALL, help="of both kinds, for each other dtype")
    options = parser.parse_args()
    from opinfo_walk import entries

    total = {name: Measured() for name in listed()}
    counts: Counter[str] = Counter()
    extent = (options.samples, options.references, options.others)
    tasks = [(i, str(options.library), *extent) for i in range(len(entries()))]
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for entry, found, seconds in pool.imap_unordered(measure_entry, tasks):
            counts["entries"] += 1
            print(f"{counts['entries']}/{len(tasks)} {entry} {seconds:.1f} s", file=sys.stderr, flush=True)
            for name, part in found.items():
                whole = total[name]
                whole.dtypes |= part.dtypes
                whole.passed += part.passed
                whole.failed += part.failed
                whole.first_failures += part.first_failures
    DOC.write_text(render(total, extent_line(*extent)))
    for name, part in total.items():
        if part.failed and name not in REASONS:
            print(f"{name}: {part.failed} of {part.passed + part.failed} fail; {part.first_failures[:4]}")


if __name__ == "__main__":
    main()
