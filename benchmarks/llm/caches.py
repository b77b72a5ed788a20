"""Measure decoding with caches of float32, float16 and int8: files of one model run in turns in one process.

    edgecore llm export MODEL -o f32.pte --bits 4 --embedding-bits 4 --context 1024
    (the same with --cache-bits 16 and --cache-bits 8)
    python benchmarks/llm/caches.py f32.pte f16.pte i8.pte --threads 1

Prints the median tokens per second while 64 tokens follow a prompt of 500 tokens.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from edgecore_llm.runner.session import Model, Session


def rate(session: Session, prompt: int, count: int) -> float:
    """Return the tokens per second of `count` tokens after the prompt."""
    session.rewind(prompt)
    start = time.perf_counter()
    for token in range(count):
        session.append([token + 5])
    return count / (time.perf_counter() - start)


def main() -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    for name, value in (("threads", 1), ("turns", 5), ("prompt", 500), ("count", 64)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    sessions = [Model(file, threads=given.threads).new_session() for file in given.files]
    tokens = np.random.default_rng(0).integers(0, sessions[0].metadata.vocabulary, given.prompt).tolist()
    for session in sessions:
        session.append(tokens)
    rates = [[rate(session, given.prompt, given.count) for session in sessions] for _ in range(given.turns)]
    for file, found in zip(given.files, zip(*rates, strict=True), strict=True):
        print(f"{file}: {statistics.median(found):.1f} ({min(found):.1f} to {max(found):.1f})")


if __name__ == "__main__":
    main()
