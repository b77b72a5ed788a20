"""Measure the table of speeds in README.md, in fp32 and int8, and write it there, between two comments.

    make install .stamps/test .stamps/peers
    .venv/bin/python benchmarks/readme.py [MODEL ...] [--threads 2] [--rounds 12] [--folder FOLDER] [--print]

Each runtime runs the same network in a separate process, in turn with the other runtimes (`runtimes.py`). The files of
all runtimes are kept in FOLDER, because it takes half an hour to make them; the runs take ten minutes. Other work on
the machine falsifies the figures. `--print` prints the section and leaves README.md as it is.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from textwrap import fill

README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN = "<!-- speed: made by benchmarks/readme.py -->"
END = "<!-- end of speed -->"
DTYPES = ("fp32", "int8")
NAMES = {
    "edgecore": "edgecore",
    "executorch": "executorch",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
}
"""Name of each runtime's pip package, which is also its name in `runtimes.py` -> the name in the table."""

Times = Mapping[str, float]
"""Runtime -> milliseconds of a run."""


@dataclass(frozen=True)
class Row:
    """The times of one network in both dtypes."""

    model: str
    fp32: Times
    int8: Times


@dataclass(frozen=True)
class Conditions:
    """The conditions of a measurement, from which a reader can judge and repeat it.

    Attributes:
        processor: Name, features, number of CPUs, caches and date, as `processor.py` prints them.
        versions: Runtime -> version.
        commit: The commit of edgecore, abbreviated.
        threads: Threads of each runtime.
        runs: Runs of each runtime, whose median counts.
    """

    processor: str
    versions: Mapping[str, str]
    commit: str
    threads: int
    runs: int


def section(rows: Sequence[Row], conditions: Conditions) -> str:
    """Return the text between the two comments of README.md: the conditions, the table, and the ratios."""
    peers = ", ".join(f"{NAMES[name]} {text}" for name, text in conditions.versions.items() if name != "edgecore")
    text = (
        f"Milliseconds of a run with {conditions.threads} threads beside {peers}: medians of {conditions.runs} runs in "
        "turns, by `python benchmarks/readme.py`. The weights are random. edgecore and executorch use XNNPACK. Each "
        "runtime quantizes by its own tool, with the same samples. "
        f"edgecore {conditions.versions['edgecore']}, commit {conditions.commit}; {conditions.processor}."
    )
    return f"{fill(text, 120, break_long_words=False, break_on_hyphens=False)}\n\n{table(rows)}\n"


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table: a row for each network, and a last one with the geometric means of the ratios."""
    first, *others = NAMES.values()
    columns = [column for dtype in DTYPES for column in (f"{dtype}: {first}", *others)]
    lines = ["| ms | " + " | ".join(columns) + " |", "|---" + "|---:" * len(columns) + "|"]
    for row in rows:
        cells = [f"{times[name]:.2f}" for times in (row.fp32, row.int8) for name in NAMES]
        lines.append(f"| {row.model} | " + " | ".join(cells) + " |")
    means = []
    for times in ([row.fp32 for row in rows], [row.int8 for row in rows]):
        means += ["", *(f"{ratio(times, name):.2f}" for name in NAMES if name != "edgecore")]
    return "\n".join([*lines, "| edgecore / other, mean | " + " | ".join(means) + " |"])


def ratio(measured: Sequence[Times], peer: str) -> float:
    """Return the geometric mean of edgecore's time divided by the time of another runtime."""
    logarithms = [math.log(times["edgecore"] / times[peer]) for times in measured]
    return math.exp(sum(logarithms) / len(logarithms))


def replaced(text: str, new: str) -> str:
    """Return the text of README.md with another section between the comments.

    Raises:
        SystemExit: The text does not have both comments, once each, in order.
    """
    before, begin, rest = text.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end or BEGIN in old + after or END in after:
        raise SystemExit(f"{README} needs the line {BEGIN} and, behind it, the line {END}, once each")
    return f"{before}{BEGIN}\n{new}{END}{after}"


def measure(models: Sequence[str], threads: int, rounds: int, folder: Path) -> list[Row]:
    """Make the files that FOLDER lacks, run all files, and print a line for each network."""
    from check import latency
    from runtimes import INT8, files

    rows = []
    for model in models or INT8:
        seconds = [latency(files(model, folder, dtype == "int8"), threads, rounds) for dtype in DTYPES]
        fp32, int8 = ({name: value * 1e3 for name, value in times.items()} for times in seconds)
        rows.append(Row(model, fp32, int8))
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Run the command line."""
    from check import RUNS_PER_BLOCK
    from processor import processor

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="default: the networks that runtimes.py measures in int8")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12, help="blocks of five runs for each runtime")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "edgecore-bench-processor")
    parser.add_argument("--print", action="store_true", help="print the section, and leave README.md as it is")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    commit = subprocess.check_output(["git", "rev-parse", "--short=8", "HEAD"], cwd=README.parent, text=True).strip()
    versions = {name: version(name) for name in NAMES}
    runs = arguments.rounds * RUNS_PER_BLOCK
    rows = measure(arguments.models, arguments.threads, arguments.rounds, arguments.folder)
    new = section(rows, Conditions(processor(), versions, commit, arguments.threads, runs))
    if arguments.print:
        print(new)
    else:
        README.write_text(replaced(README.read_text(encoding="utf-8"), new), encoding="utf-8")


if __name__ == "__main__":
    main()
