"""Fuzz small models: `python -m fuzz.models.run --models 300` in tests/, part of `make fuzz-graphs`.

Each model runs on every installed backend, on QNN's slow emulator every tenth. A model is checked in a forked process, and
becomes a line of JSON in the progress file, so that a run goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from fuzz.check import Finding
from fuzz.contained import Row, add_row, contained, read_rows
from fuzz.models.check import KERNELS, check, smallest, targets
from fuzz.models.draw import draw

import edgecore  # noqa: F401  (once for all forked processes)
from edgecore.plugin import registry

SLOW = "qnn"
EVERY = 10
"""Each how many models run on the slow backend."""

PRELOADED = ("torchao", "coremltools", "openvino")
"""Modules of compilers that take seconds to import."""


def installed_backends() -> list[str]:
    """Return the names of the backends that are installed and work."""
    return sorted(backend.name for backend in registry.installed() if backend.state == "ok")


def backends_of(seed: int, installed: Sequence[str]) -> list[str]:
    """Return the backends on which the model of a seed runs."""
    return [*(name for name in installed if name != SLOW or seed % EVERY == 0), KERNELS]


def run_seed(seed: int, installed: Sequence[str], counts: Counter[str], note: Callable[[str], Any]) -> list[str]:
    """Check the model of a seed on all its targets; return a text for each finding, with the smallest model."""
    findings = []
    model = draw(seed)
    for target in targets(seed, backends_of(seed, installed)):
        note(f"{target}\n{model}")
        try:
            counts["ran" if check(model, target) else "skipped"] += 1
        except Finding:
            findings.append(str(smallest(model, target)[1]))
    return findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the first seed; a second process takes another")
    parser.add_argument("--backends", help="names, separated by commas; default: all that are installed")
    parser.add_argument("--progress", type=Path, default=Path("build/fuzz-models"), help="folder of the progress")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in PRELOADED:  # once for all forked processes
        with suppress(ImportError):
            import_module(name)
    installed = arguments.backends.split(",") if arguments.backends else installed_backends()
    arguments.progress.mkdir(parents=True, exist_ok=True)
    progress = arguments.progress / f"progress-{arguments.first}.jsonl"
    rows = read_rows(progress)
    seen = {row["seed"] for row in rows}
    for seed in range(arguments.first, arguments.first + arguments.models):
        if seed in seen:
            continue

        def work(row: Row, note: Callable[[str], Any], seed: int = seed) -> None:
            counts: Counter[str] = Counter()
            findings = run_seed(seed, installed, counts, note)
            row.update(counts)
            if findings:
                row["finding"] = "\n".join(findings)

        row = contained(seed, arguments.progress, work)
        add_row(progress, row)
        rows.append(row)
        if text := row.get("finding") or row.get("eager"):
            print(f"seed {seed}: {text}\n", flush=True)
        print(f"seed {seed}: {row.get('ran', 0)} targets, {row['seconds']} s", flush=True)
    failed = sum("finding" in row for row in rows)
    print(f"{len(rows)} models, {sum(row.get('ran', 0) for row in rows)} compiled and compared, {failed} with findings")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
