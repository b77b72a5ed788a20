"""Fuzzes with libFuzzer in chunks: `python -m fuzz.long --inputs 1000000` in tests/, or `make fuzz-long`.

A chunk is one run of a fuzzer with its own random seed. What it did goes as a line of JSON into the progress file; a
repeat goes on after the chunks that are in it. A chunk that finds something ends the run: it is no line of the progress
file, so that a repeat tries it again. All chunks of a fuzzer add to one corpus, in the folder of the run.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORPUS = {
    "blob": ROOT / "plugins/edgecore-xnnpack/native/fuzz/corpus",
    **{kind: ROOT / "runtime_cpp/fuzz/corpus" / kind for kind in ("pte", "model", "bpte", "ptd", "state", "manifest")},
}
"""The corpus of each fuzzer that is kept in the repository."""

SHARES = {"pte": 30, "blob": 40, "model": 10, "bpte": 8, "ptd": 8, "state": 2, "manifest": 2}
"""Inputs of each fuzzer, in percent."""

LIMITS = ("-timeout=25", "-rss_limit_mb=2048", "-max_len=8192", "-mutate_depth=2")
"""Of one input: seconds (milliseconds are usual, but the machine may be busy), memory, bytes, changes in a row."""


SANITIZER = {"ASAN_OPTIONS": "malloc_context_size=3:quarantine_size_mb=64"}
"""Shorter stacks of allocations, and less freed memory that is kept: the fuzzers run faster."""

KEPT_BYTES = 4096
"""Bytes of the largest input that the repository keeps."""

SPARE = 100
"""Inputs that a chunk makes in addition, because its corpus may grow while it starts."""


@dataclass(frozen=True)
class Fuzzer:
    """A fuzzer, the folders that it starts from, and the number of inputs that it is to run."""

    name: str
    program: Path
    corpora: tuple[Path, ...]
    inputs: int


@dataclass
class Chunk:
    """A run of a fuzzer that has been started."""

    fuzzer: Fuzzer
    seed: int
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes]
    started: float = field(default_factory=time.monotonic)


class Findings(Exception):
    """The chunks that found something, with the log of each."""


class Run:
    """A run in a folder, which holds its progress, its corpora and what it finds."""

    def __init__(self, fuzzers: Sequence[Fuzzer], folder: Path, chunk: int) -> None:
        self.fuzzers, self.folder, self.chunk = list(fuzzers), folder, chunk
        self.progress = folder / "progress.jsonl"
        self.rows: list[dict[str, Any]] = []
        folder.mkdir(parents=True, exist_ok=True)
        if self.progress.exists():
            lines = self.progress.read_text().splitlines(keepends=True)
            lines = [line for line in lines if line.endswith("\n")]  # the last may be cut off
            self.progress.write_text("".join(lines))
            self.rows = [json.loads(line) for line in lines]

    def corpus(self, fuzzer: Fuzzer) -> Path:
        """The folder to which the fuzzer adds what reaches new code."""
        return self.folder / "corpus" / fuzzer.name

    def left(self) -> Iterator[tuple[Fuzzer, int, int]]:
        """What is left to do: fuzzer, seed and inputs of each chunk; the fuzzers take turns."""
        chunks = []
        for fuzzer in self.fuzzers:
            rows = [row for row in self.rows if row["fuzzer"] == fuzzer.name]
            left, seed = fuzzer.inputs - sum(row["inputs"] for row in rows), 1
            done = {row["seed"] for row in rows}
            while left > 0:
                if seed not in done:
                    chunks.append((fuzzer, seed, min(left, self.chunk)))
                    left -= self.chunk
                seed += 1
        yield from sorted(chunks, key=lambda chunk: chunk[1])

    def go(self, jobs: int) -> None:
        """Run what is left, `jobs` chunks at a time; raises `Findings`, once the other chunks have ended."""
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SystemExit(f"another run is going on in {self.folder}") from None
            while chunks := list(self.left()):
                self._go(iter(chunks), jobs)

    def _go(self, chunks: Iterator[tuple[Fuzzer, int, int]], jobs: int) -> None:
        running: list[Chunk] = []
        found: list[str] = []
        try:
            while True:
                while len(running) < jobs and not found and (chunk := next(chunks, None)) is not None:
                    running.append(self._start(*chunk))
                if not running:
                    break
                pid, status, usage = os.wait4(-1, 0)
                for chunk in [chunk for chunk in running if chunk.process.pid == pid]:
                    running.remove(chunk)
                    code = chunk.process.returncode = os.waitstatus_to_exitcode(status)
                    if code:
                        found.append(self._finding(chunk, code))
                    else:
                        self._finish(chunk, usage.ru_utime + usage.ru_stime)
        finally:
            for chunk in running:
                chunk.process.kill()
                chunk.process.wait()
        if found:
            raise Findings("\n\n".join(found))

    def _start(self, fuzzer: Fuzzer, seed: int, inputs: int) -> Chunk:
        corpus = self.corpus(fuzzer)
        for folder in (corpus, self.folder / "findings", self.folder / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
        corpora = [corpus, *(folder for folder in fuzzer.corpora if folder.is_dir())]
        known = sum(len(list(folder.iterdir())) for folder in corpora)  # the fuzzer runs these first
        command = [
            *(str(fuzzer.program), f"-seed={seed}", f"-runs={known + inputs + SPARE}", *LIMITS, "-print_final_stats=1"),
            f"-artifact_prefix={self.folder}/findings/{fuzzer.name}-{seed}-",
            *map(str, corpora),
        ]
        log = self.folder / "logs" / f"{fuzzer.name}-{seed}.txt"
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=SANITIZER | os.environ)
        return Chunk(fuzzer, seed, command, log, process)

    def _finish(self, chunk: Chunk, cpu: float) -> None:
        row = {
            "fuzzer": chunk.fuzzer.name,
            "seed": chunk.seed,
            **statistics(chunk.log.read_text(errors="replace")),
            "seconds": round(time.monotonic() - chunk.started, 1),
            "cpu_seconds": round(cpu, 1),
        }
        with self.progress.open("a") as file:
            file.write(json.dumps(row) + "\n")
        self.rows.append(row)
        chunk.log.unlink()
        total = sum(row["inputs"] for row in self.rows)
        print(
            f"{chunk.fuzzer.name} {chunk.seed}: {total} inputs of {sum(one.inputs for one in self.fuzzers)}", flush=True
        )

    def _finding(self, chunk: Chunk, code: int) -> str:
        files = sorted((self.folder / "findings").glob(f"{chunk.fuzzer.name}-{chunk.seed}-*"))
        repeat = [*chunk.command[:1], *LIMITS, *map(str, files)] if files else chunk.command
        return f"{chunk.fuzzer.name} {chunk.seed}: exit code {code}, see {chunk.log}\nrepeat: {shlex.join(repeat)}"

    def table(self) -> str:
        """What each fuzzer did so far; `ran`: the inputs that were run to their end, not refused."""
        names = ("fuzzer", "inputs", "ran", "CPU s", "per CPU s", "edges", "features", "corpus", "peak MiB")
        lines = [("{:10}" + "{:>10}" * 8).format(*names)]
        for fuzzer in self.fuzzers:
            rows = [row for row in self.rows if row["fuzzer"] == fuzzer.name]
            if not rows:
                continue
            inputs, ran, cpu = (sum(row[name] for row in rows) for name in ("inputs", "ran", "cpu_seconds"))
            most = [max(row[name] for row in rows) for name in ("edges", "features", "corpus", "peak_mb")]
            numbers = [inputs, ran, round(cpu), round(inputs / max(cpu, 0.1)), *most]
            lines.append(f"{fuzzer.name:10}" + "".join(f"{number:10}" for number in numbers))
        inputs, ran, cpu = (sum(row[name] for row in self.rows) for name in ("inputs", "ran", "cpu_seconds"))
        return "\n".join([*lines, f"{'all':10}{inputs:10}{ran:10}{round(cpu):10}"])

    def keep(self, kept: dict[str, Path]) -> None:
        """Replace each corpus in `kept` by few inputs of the run, none of them large, that reach the same code."""
        for fuzzer in self.fuzzers:
            small, new = (self.folder / name / fuzzer.name for name in ("small", "kept"))
            for folder in (small, new):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            for corpus in (self.corpus(fuzzer), *fuzzer.corpora):
                for file in corpus.iterdir() if corpus.is_dir() else ():
                    if file.stat().st_size <= KEPT_BYTES:
                        shutil.copy(file, small)
            options = ("-set_cover_merge=1", "-use_counters=0", *LIMITS)  # edges alone: a tenth of the files
            subprocess.run([str(fuzzer.program), *options, str(new), str(small)], check=True, capture_output=True)
            shutil.rmtree(kept[fuzzer.name], ignore_errors=True)
            shutil.copytree(new, kept[fuzzer.name])


def statistics(log: str) -> dict[str, int]:
    """The numbers in the output of a fuzzer that has ended."""
    initial = re.search(r"^#(\d+)\s+INITED", log, re.M)
    done = re.search(r"^#(\d+)\s+DONE\s+cov: (\d+) ft: (\d+) corp: (\d+)/", log, re.M)
    peak = re.search(r"^stat::peak_rss_mb:\s+(\d+)", log, re.M)
    ran = re.search(r"^stat::inputs_that_ran:\s+(\d+)", log, re.M)
    if initial is None or done is None or peak is None:
        raise ValueError(f"not the output of a fuzzer that has ended:\n{log[-2000:]}")
    executed, edges, features, corpus = (int(number) for number in done.groups())
    return {
        "inputs": executed - int(initial[1]),
        "ran": int(ran[1]) if ran else 0,  # those of the corpus included
        "edges": edges,
        "features": features,
        "corpus": corpus,
        "peak_mb": int(peak[1]),
    }


def fuzzers(inputs: int, core: Path, xnnpack: Path, seeds: Path) -> list[Fuzzer]:
    """All fuzzers, in the build folders of core and XNNPACK delegate."""
    return [
        Fuzzer(
            name,
            xnnpack / "fuzz/blob_fuzz" if name == "blob" else core / f"runtime_cpp/fuzz/edgecore_{name}_fuzzer",
            (CORPUS[name], seeds / name),
            inputs * share // 100,
        )
        for name, share in SHARES.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--chunk", type=int, default=10_000, help="inputs of a chunk")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=ROOT / "build/fuzz-long", help="folder of the progress")
    parser.add_argument("--core", type=Path, default=ROOT / "build/fuzz", help="build folder of the core's fuzzers")
    parser.add_argument("--xnnpack", type=Path, default=ROOT / "build/xnnpack-address", help="the same of XNNPACK's")
    parser.add_argument("--keep", action="store_true", help="put the corpora, minimised, into the repository")
    arguments = parser.parse_args()
    chosen = fuzzers(arguments.inputs, arguments.core, arguments.xnnpack, arguments.folder / "seeds")
    run = Run(chosen, arguments.folder, arguments.chunk)
    try:
        run.go(arguments.jobs)
    except Findings as found:
        print(f"{run.table()}\n\n{found}", flush=True)
        sys.exit(1)
    print(f"{run.table()}\n\nnothing found", flush=True)
    if arguments.keep:
        run.keep(CORPUS)


if __name__ == "__main__":
    main()
