"""Compare cells of a sweep with what single commands give: `edgecore compile --compare`, `budget --write` and `profile`.

    cd benchmarks && python sweep_sample.py sweep_zoo.toml ../build/sweep_zoo [--cells 12] [--seed 1]

Draws cells that the folder has results for. Of each it compares the status, the sentence, the SQNR, bytes, memory,
delegates, the share of the operators that these compute, and cycles; times differ with each run. Exit status: 1 if
something differs.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy

from edgecore.cli.models import function_of
from edgecore.devtools.budget import read_expectation
from edgecore.plugin import registry
from edgecore.sweeps import CellResult, make_plan, read_results
from edgecore.sweeps.plan import FLOAT, KERNELS, Build

FIELDS = (
    "status",
    "reason",
    "file_bytes",
    "planned_bytes",
    "delegate_bytes",
    "delegated",
    "delegates",
    "sqnr_db",
    "cycles",
)


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    # The process of a cell has one thread, and sums are added in the order of their threads.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "10000"}
    words = [sys.executable, "-m", "edgecore", *map(str, arguments)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def single(build: Build, folder: Path) -> dict[str, Any]:
    """Return the figures of a cell by single commands."""
    file = folder / "model.pte"
    options = ["--runtime", build.runtime, "-o", file, "--compare", "--json"]
    if build.backend_name != KERNELS:
        options += ["-b", build.backend_name]
    if build.recipe_name != FLOAT:
        options += ["-q", build.recipe_name]
        recipe = registry.load_compiler(registry.find_by_name(build.backend_name)).recipes().get(build.recipe_name)
        if build.calibration and recipe is not None and recipe.calibrates:
            options += ["--calibration", samples(build.calibration, folder / "samples")]
    done = command("compile", build.source, *options)
    found: dict[str, Any] = {"status": "ok" if done.returncode == 0 else "failed", "reason": ""}
    if done.returncode:
        found["reason"] = done.stderr.strip().splitlines()[-1].removeprefix("edgecore: ").removeprefix(f"{file}: ")
    if not file.is_file():
        return found
    if done.stdout:
        rows = json.loads(done.stdout)["comparison"]
        found["status"] = "wrong" if done.returncode else "ok"
        found["sqnr_db"] = min(math.inf if row["eager"]["sqnr"] is None else row["eager"]["sqnr"] for row in rows)
        command("profile", file, "--runs", 1, "--warmup", 0, "--json", folder / "profile.json")
        cycles = json.loads((folder / "profile.json").read_text())["estimated_cycles"]
        found["cycles"] = sum(one["cycles"] for one in cycles) or None
    else:
        found["status"] = "made"
    command("budget", file, "--expect", folder / "limits.toml", "--write")
    limits = read_expectation(folder / "limits.toml")
    return {
        **found, "file_bytes": limits["size"]["max_file_bytes"], "planned_bytes": limits["memory"]["max_planned_bytes"],
        "delegate_bytes": limits["memory"].get("max_delegate_bytes"), "delegated": limits["operators"]["min_delegated"],
        "delegates": limits["delegates"]["max_count"],
    }  # fmt: skip


def samples(function: str, folder: Path) -> Path:
    """Write the samples of a function into a folder, as the command takes them."""
    folder.mkdir()
    for number, (sample,) in enumerate(function_of(function)()):
        numpy.save(folder / f"{number}.npy", sample.numpy())
    return folder


def of_cell(row: CellResult) -> dict[str, Any]:
    """Return the same figures of a row of the sweep."""
    found = {name: getattr(row, name) for name in FIELDS}
    if row.delegated is not None:
        found["delegated"] = int(row.delegated * 10_000) / 10_000  # as `budget --write` rounds it
    found["reason"] = row.reason.removeprefix("this machine cannot run the file: ")
    return found


def differences(cell: dict[str, Any], alone: dict[str, Any]) -> list[str]:
    if cell["status"] == "skipped":  # a command has no such status: it fails with the same sentence
        cell = {**cell, "status": "failed"}
    return [f"{name}: {cell[name]} and alone {alone.get(name)}" for name in FIELDS if cell[name] != alone.get(name)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path, help="the sweep.toml")
    parser.add_argument("results", type=Path, help="the folder with its results")
    parser.add_argument("--cells", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    builds = {cell.name: cell.build for cell in make_plan(arguments.sweep).cells}
    rows = [row for row in read_results(arguments.results) if row.cell in builds]
    drawn = random.Random(arguments.seed).sample(rows, min(arguments.cells, len(rows)))
    wrong = 0
    for row in drawn:
        with tempfile.TemporaryDirectory() as folder:
            differing = differences(of_cell(row), single(builds[row.cell], Path(folder)))
        wrong += bool(differing)
        print(f"{row.cell}: {row.status}: {'; '.join(differing) or 'equal'}", flush=True)
    print(f"{len(drawn) - wrong} of {len(drawn)} cells are equal")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
