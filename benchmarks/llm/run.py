"""Measure edgecore-llm and its peers with the files of `prepare.py`, and write the tables of README.md.

    python benchmarks/llm/run.py [SHAPE ...] [--folder build/llm-peers] [--turns 5] [--threads 1 2] [--prefix COMMAND]

The runners alternate: in each turn, each runner starts once in a new process for each number of threads. Each figure is
the median of all turns. The bandwidth of the memory is measured in each turn as well.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from prepare import FILES, FOLDER, python_of
from shapes import NEW, PROMPT, SHAPES, Shape, describe

sys.path.insert(0, str(Path(__file__).parents[1]))
from processor import processor

HERE = Path(__file__).parent
HEADING = "\n## Measured\n"
BITS = {"onnx": 5.0}
"""Bits of a weight and its share of the group's scale: 4 + 32 / 32 with the float32 scales of ONNX Runtime. For other
runners it is 4.5, because their scales have 16 bits."""
CACHE_BYTES = {"llama.cpp": 2, "openvino": 1}
"""Bytes of a cached value: float16 with llama.cpp, int8 with OpenVINO, float32 with the others."""
OURS = "edgecore"
Speeds = dict[tuple[str, int, str], list[float]]


def token_bytes(runner: str, shape: Shape) -> float:
    """Return the bytes that a token in the middle of the answer reads: weights and cached positions."""
    cached = (PROMPT + NEW / 2) * shape.cached() * CACHE_BYTES.get(runner, 4)
    return shape.weights() * BITS.get(runner, 4.5) / 8 + cached


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files of a folder."""
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())


def measure(name: str, runners: list[str], arguments: argparse.Namespace) -> Speeds:
    """Return (runner, threads, "prefill" or "decode") -> a speed for each turn, in tokens per second.

    The runner "memory" is the bandwidth of the memory in GB/s.
    """
    folder: Path = arguments.folder.absolute()
    prefix = shlex.split(arguments.prefix)
    bandwidth = folder / "bandwidth"
    compiler = ["cc", "-O3", "-march=native", "-pthread", HERE / "bandwidth.c", "-o", bandwidth]
    subprocess.run(compiler, check=True)
    speeds: Speeds = defaultdict(list)
    for turn in range(arguments.turns):
        for threads in arguments.threads:
            out = subprocess.run([*prefix, bandwidth, str(threads)], check=True, capture_output=True, text=True).stdout
            speeds["memory", threads, "decode"].append(float(out))
            for runner in runners:
                python = python_of(folder, runner.split("-")[0])
                sizes = [str(value) for value in (threads, PROMPT, NEW)]
                command = [*prefix, python, HERE / "turn.py", runner, folder / name / FILES[runner][0], *sizes]
                done = subprocess.run(command, check=False, capture_output=True, text=True)
                if done.returncode != 0:
                    print(f"{runner} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
                    continue
                found = json.loads(done.stdout.strip().splitlines()[-1])
                for kind, value in found.items():
                    speeds[runner, threads, kind].append(value)
                print(f"turn {turn}, {name}, {runner}, {threads} threads: {found}", flush=True)
    return speeds


def table(name: str, runners: list[str], speeds: Speeds, arguments: argparse.Namespace) -> str:
    """Return the Markdown of a shape: speeds, ratios to the best peer, and the share of the bandwidth."""
    shape = SHAPES[name]
    columns = [(kind, threads) for kind in ("prefill", "decode") for threads in arguments.threads]
    median = {key: statistics.median(values) for key, values in speeds.items()}
    heads = [f"{kind}, {threads} thread{'s' * (threads > 1)}" for kind, threads in columns]
    lines = [
        f"### {name}: {describe(shape)}",
        "",
        "| runner | file MB | MB a token | " + " | ".join(heads) + " |",
        "|---" * (len(columns) + 3) + "|",
    ]

    def cell(runner: str, kind: str, threads: int) -> str:
        return f"{median[runner, threads, kind]:.1f}" if (runner, threads, kind) in median else "-"

    for runner in runners:
        megabytes = size(arguments.folder / name / FILES[runner][0]) / 1e6
        read = token_bytes(runner, shape) / 1e6
        cells = " | ".join(cell(runner, kind, threads) for kind, threads in columns)
        lines.append(f"| {runner} | {megabytes:.0f} | {read:.0f} | {cells} |")
    ratios, shares = [], []
    for kind, threads in columns:
        peers = [median.get((runner, threads, kind), 0.0) for runner in runners if runner != OURS]
        best = max(peers, default=0.0)
        ours = median.get((OURS, threads, kind))
        ratios.append(f"{ours / best:.2f}" if ours and best else "-")
        limit = median["memory", threads, "decode"] * 1e9 / token_bytes(OURS, shape)
        shares.append(f"{ours / limit:.2f}" if ours and kind == "decode" else "")
    lines.append("| edgecore / best peer | | | " + " | ".join(ratios) + " |")
    lines.append("| edgecore / what the bandwidth allows | | | " + " | ".join(shares) + " |")
    rates = ", ".join(f"{median['memory', t, 'decode']:.1f} GB/s ({t})" for t in arguments.threads)
    lines += ["", f"Bandwidth by threads: {rates}. Medians of {arguments.turns} turns.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"default: {', '.join(SHAPES)}")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--runners", nargs="*", default=list(FILES), choices=FILES)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--prefix", default="", help="a command that starts each process, such as taskset")
    parser.add_argument("--readme", type=Path, help="the page whose tables are replaced; by default they are printed")
    arguments = parser.parse_args()
    parts = [f"{processor()}.\n"]
    for name in arguments.shapes or SHAPES:
        runners = [runner for runner in arguments.runners if (arguments.folder / name / FILES[runner][0]).exists()]
        parts.append(table(name, runners, measure(name, runners, arguments), arguments))
        print(parts[-1], flush=True)
    if arguments.readme is not None:
        text = arguments.readme.read_text().partition(HEADING)[0]
        arguments.readme.write_text(text + HEADING + "\n" + "\n".join(parts))


if __name__ == "__main__":
    main()
