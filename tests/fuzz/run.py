"""Fuzzes small graphs: `python -m fuzz.run --graphs 20000` in tests/, or `make fuzz-graphs GRAPHS=20000`.

A chunk is one run of hypothesis with its own seed, in a forked process. What a chunk found goes as a line of JSON into
the progress file; chunks that are in it are not repeated, so that a run goes on where it was stopped. Where the process of a chunk
dies, the finding is the graphs that it had begun to compile, not shrunk.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from fuzz.check import Finding, Variant, check
from fuzz.contained import Row, add_row, contained, read_rows
from fuzz.draw import graphs
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import edgecore

TOGETHER = 12
"""Graphs in one compilation."""

RECIPES = ("fp16", "int8", "int8-dynamic", "int4-weights")


def fuzz(number: int, examples: int, counts: Counter[str], shrink: bool = True, note: Any = None) -> None:
    """One run of hypothesis with seed `number`; raises the `Finding` of the smallest failing example.

    `counts` grows by `graphs`, those that `ran` (once for each variant), and `compilations`.
    """

    @seed(number)
    @settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate], report_multiple_bugs=False,
    )  # fmt: skip
    @given(st.data())
    def run(data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(("plain",) * 8 + ("recipe", "traced", "dynamic")))
        most = {"dynamic": 2, "recipe": 3}.get(kind, TOGETHER)
        several = st.lists(graphs("layers" if kind == "recipe" else "any"), min_size=1, max_size=most)
        if note is not None:
            note("")  # PyTorch itself may crash while it computes the results of a new graph
        drawn = data.draw(several)
        runtime = data.draw(st.sampled_from(("executorch-1.5", "edgecore")))
        if kind == "recipe":
            variants = [Variant(("xnnpack",), runtime, data.draw(st.sampled_from(RECIPES)))]
        elif kind in ("traced", "dynamic"):
            backends = data.draw(st.sampled_from(((), ("xnnpack",))))
            variants = [Variant(backends, runtime, trace=True, dynamic=kind == "dynamic")]
        else:
            variants = [Variant((), runtime), Variant(("xnnpack",), runtime)]
        counts["graphs"] += len(drawn)
        for variant in variants:
            if note is not None:
                note("\n".join([str(variant), *(str(one.graph) for one in drawn)]))
            counts["compilations"] += 1
            counts["ran"] += check([one.graph for one in drawn], [one.results for one in drawn], variant)

    run()


def _import_what_compiling_needs() -> None:
    """Compile one layer with each recipe, so that chunks inherit the modules that this imports, seconds of each process."""
    layer, x = torch.nn.Linear(32, 32).eval(), (torch.ones(1, 32),)
    for recipe in (None, *RECIPES):
        backends = [] if recipe is None else ["xnnpack"]
        calibration = [x] if recipe == "int8" else None
        edgecore.load(
            edgecore.compile(layer, x, backends=backends, quantize=recipe, calibration=calibration).buffer, threads=1
        )


def _chunk(number: int, examples: int, shrink: bool, folder: Path) -> Row:
    """The chunk in a forked process; a row for the progress file."""

    def work(row: Row, note: Any) -> None:
        counts: Counter[str] = Counter()
        try:
            fuzz(number, examples, counts, shrink, note)
        except Finding as error:
            row["finding"] = str(error)
        row.update(counts)

    return {"examples": examples, **contained(number, folder, work)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=20000)
    parser.add_argument("--examples", type=int, default=50, help="examples of a chunk, each of up to 6 graphs")
    parser.add_argument("--first", type=int, default=0, help="seed of the first chunk; a second process takes another")
    parser.add_argument("--progress", type=Path, default=Path("build/fuzz-graphs"), help="folder of the progress")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--stop", action="store_true", help="at the first finding")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.progress.mkdir(parents=True, exist_ok=True)
    progress = arguments.progress / f"progress-{arguments.first}.jsonl"
    rows = read_rows(progress)
    number = max([arguments.first - 1, *(row["seed"] for row in rows)]) + 1
    total = sum(row.get("graphs", 0) for row in rows)
    findings = sum("finding" in row for row in rows)
    _import_what_compiling_needs()
    while total < arguments.graphs:
        row = _chunk(number, arguments.examples, not arguments.no_shrink, arguments.progress)
        add_row(progress, row)
        total += row.get("graphs", 0)
        if "eager" in row:
            print(f"seed {number}: {row['eager']}", flush=True)
        if "finding" in row:
            findings += 1
            print(f"seed {number}: {row['finding']}\n", flush=True)
            if arguments.stop:
                break
        print(f"seed {number}: {total} graphs, {findings} findings, {row['seconds']} s", flush=True)
        number += 1
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
