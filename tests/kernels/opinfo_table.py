"""Write docs/operators.md: how each kernel agrees with eager PyTorch on its operator database, and its own tests.

python tests/kernels/opinfo_table.py LIBRARY [--jobs 2] [--samples N] [--references N] [--others N]

LIBRARY is libedgecore_kernels_test.so of a build. The default extent is every sample of every entry.
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
TARGET_OPERATORS = ROOT / "src" / "edgecore" / "format" / "profiles" / "executorch-1.5"
OWN_OPERATORS = ROOT / "runtime_cpp" / "kernels" / "operators.inc"
TESTS = ROOT / "tests" / "kernels"
NONE = "-"
ALL = 1_000_000
MIN_PASS_RATE = 0.95  # fraction of the calls of each operator that must agree

# The reasons why calls of an operator do not agree with eager PyTorch. All calls of an operator without an entry agree.
REASONS: dict[str, str] = {
    "aten::grid_sampler_2d.out": "float16: at some points of large images eager gives NaN, where float64 gives none",
    "aten::native_dropout.out": "random numbers of another generator; test_random.py checks the distribution",
    "aten::unique_consecutive.out": "of one dim, dim=0: eager leaves inverse and counts empty, torch.export gives them sizes",
    "aten::rand.out": "random numbers of another generator; test_random.py checks the distribution",
    "aten::randn.out": "random numbers of another generator; test_random.py checks the distribution",
}


@dataclass
class Measured:
    """The results of the walk for one operator."""

    dtypes: set[str] = field(default_factory=set)
    passed: int = 0
    failed: int = 0
    first_failures: list[str] = field(default_factory=list)


def target_operators() -> list[str]:
    """Return the operators of the target runtime executorch-1.5."""
    names = "kernels.txt", "quantized_kernels.txt"
    return [line for name in names for line in (TARGET_OPERATORS / name).read_text().split()]


def own_operators() -> list[str]:
    """Return the ATen operators for which only edgecore has kernels."""
    rows = re.findall(r'^EDGECORE_OPERATOR\("(aten::\w+)", "(\w+)"', OWN_OPERATORS.read_text(), re.MULTILINE)
    return sorted({f"{name}.{overload}" for name, overload in rows} - set(target_operators()))


def operators() -> list[str]:
    """Return the operators of the table."""
    return target_operators() + own_operators()


def own_tests() -> dict[str, list[str]]:
    """Return for each operator the test files of this folder that name it."""
    tests: dict[str, list[str]] = {}
    texts = {path.name: path.read_text() for path in sorted(TESTS.glob("test_*.py"))}
    for name in operators():
        exact = re.compile(re.escape(name) + r"(?![\w.])")
        tests[name] = [file for file, text in texts.items() if exact.search(text)]
    return tests


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
    names = operators()
    reached = [n for n in names if measured[n].passed + measured[n].failed]
    passed = sum(m.passed for m in measured.values())
    tried = passed + sum(m.failed for m in measured.values())
    lines = [
        "# Operators",
        "",
        "`python tests/kernels/opinfo_table.py LIBRARY` writes this page; do not edit it. The script runs the samples of",
        "PyTorch's operator database (`op_db`: `sample_inputs` and `reference_inputs` of every entry, seeded) in eager",
        "PyTorch, contiguous and strided (channels last for four dims). It repeats each ATen call that they make, and that",
        "the table lists, on the kernel and compares the results. Integers, booleans and copies must be equal. A",
        "floating-point result passes within the default tolerance of `torch.testing.assert_close`, or if its error against",
        "float64 is at most twice eager's (or one unit in the last place of the largest value). Operators that no sample",
        "calls have tests of their own. The last rows are ATen operators for which only edgecore has kernels; for",
        "executorch they are decomposed.",
        "",
        f"{len(reached)} of {len(names)} operators are reached by a sample; {passed} of {tried} calls agree.",
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
    """Read the figures of a written table, so that a test can check the rest of the page without the long walk."""
    measured = {name: Measured() for name in operators()}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 5 or " / " not in cells[2] or not cells[0].startswith("`"):
            continue
        name = cells[0].strip("`")
        passed, tried = (int(number) for number in cells[2].split(" / "))
        dtypes = set() if cells[1] == NONE else set(cells[1].split(", "))
        measured[name] = Measured(dtypes, passed, tried - passed)
    return measured


def measure_entry(task: tuple[int, str, int, int, int]) -> tuple[str, dict[str, Measured], float]:
    """Walk one entry of the database in a worker process. Return its name, the results and the processor time in s."""
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
    measured: dict[str, Measured] = {}
    for name in set(checker.passed) | set(checker.failed):
        failures = checker.failed.get(name, [])
        dtypes = {str(d)[6:] for d in checker.dtypes.get(name, ())}
        measured[name] = Measured(dtypes, checker.passed[name], len(failures), failures[:2])
    return entry.name, measured, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=ALL, help="max number per entry, for float32 and int64")
    parser.add_argument("--references", type=int, default=ALL, help="max number per entry, for float32 and int64")
    parser.add_argument(
        "--others", type=int, default=ALL, help="max number of each of the two kinds, for every other dtype"
    )
    options = parser.parse_args()
    from opinfo_walk import entries

    total = {name: Measured() for name in operators()}
    counts: Counter[str] = Counter()
    extent = (options.samples, options.references, options.others)
    tasks = [(i, str(options.library), *extent) for i in range(len(entries()))]
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for entry, measured, seconds in pool.imap_unordered(measure_entry, tasks):
            counts["entries"] += 1
            print(f"{counts['entries']}/{len(tasks)} {entry} {seconds:.1f} s", file=sys.stderr, flush=True)
            for name, part in measured.items():
                total[name].dtypes |= part.dtypes
                total[name].passed += part.passed
                total[name].failed += part.failed
                total[name].first_failures += part.first_failures
    DOC.write_text(render(total, extent_line(*extent)))
    for name, part in total.items():
        if part.failed and name not in REASONS:
            print(f"{name}: {part.failed} of {part.passed + part.failed} fail; {part.first_failures[:4]}")


if __name__ == "__main__":
    main()
