"""Load and run randomly corrupted copies of a `.pte`, `.bpte` or `.ptd`, each in a forked child; count how they end.

    python tests/robustness/corrupt.py FILE [--data FILE.ptd] [--program FILE.pte] [--count 10000] [--seed 0]

With `--program`, FILE is the `.ptd` of that sound program; with `--data`, the `.ptd` is sound and FILE the program.

A child that ends by a signal is a failure: its file is kept (`--keep DIR`) and the exit status is 1. Needs no torch.
"""

from __future__ import annotations

import argparse
import collections
import math
import os
import random
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hostile_values
import numpy as np

import edgecore
from edgecore import format as fmt

SECONDS = 2
"""Processor time that one file may take; beyond it the child is killed, which counts as a failure."""

PLANNED = 16 << 20
"""Limit on the arenas of a method, in bytes."""

HEADROOM = 512 << 20
"""Address space beyond ten times the file and its arenas: stacks of threads, pools of the allocator."""

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)

NUMPY_TYPES = {"bfloat16": "uint16"}
"""Dtypes of edgecore that have another name in numpy."""


def regions(data: bytes) -> dict[str, range]:
    """The parts of a file that are corrupted: header, flatbuffer, delegate blobs, weights."""
    if data[4:8] == b"BP08":
        program = bytes(fmt.read_bpte(data).program)
        start = data.index(program)
        inner = {name: range(start + place.start, start + place.stop) for name, place in regions(program).items()}
        return {"bundle": range(0, start), "cases": range(start + len(program), len(data)), **inner}
    if data[4:8] == b"FT01":
        end = int.from_bytes(data[16:24], "little") + int.from_bytes(data[24:32], "little")
        return {"header": range(0, 48), "flatbuffer": range(48, end), "data": range(end, len(data))}
    pte = fmt.read_pte(data)
    end = int.from_bytes(data[16:24], "little")
    found = {"header": range(0, 40), "flatbuffer": range(40, end)}
    for index, segment in enumerate(pte.segments):
        kind = "blob" if segment.kind == "delegate" else "data"
        found[f"{kind} {index}"] = range(segment.offset, segment.offset + segment.size)
    return {name: place for name, place in found.items() if len(place)}


def corruptions(data: bytes, count: int, seed: int, only: list[str] | None = None) -> Iterator[tuple[str, bytes]]:
    """`count` corrupted copies, the same for the same seed, spread over header, flatbuffer, blobs and the rest alike.

    Of a `.pte`, some are well-formed files whose arguments, shapes and dtypes are hostile ("values").
    """
    rng = random.Random(seed)
    places = regions(data)
    program = fmt.read_pte(data) if data[4:8] == b"ET12" else None
    kinds: dict[str, list[range]] = collections.defaultdict(list)
    for name, place in places.items():
        kinds[name.partition(" ")[0]].append(place)
    if program is not None:
        kinds["values"] = []
    for number in range(count):
        kind = rng.choice(only or sorted(kinds))
        if kind == "values":
            yield f"{kind} {number}", hostile_values.mutated(program, rng)
            continue
        place = rng.choice(kinds[kind])
        damaged = bytearray(data)
        if number % 50 == 49:
            yield f"truncated {number}", bytes(damaged[: rng.randrange(len(data))])
            continue
        for _ in range(rng.randint(1, 4)):
            at = rng.choice(place)
            choice = rng.randrange(3)
            if choice == 0:
                damaged[at] ^= 1 << rng.randrange(8)
            elif choice == 1:
                damaged[at] = rng.randrange(256)
            else:
                width = rng.choice((1, 2, 4, 8))
                at -= at % width
                damaged[at : at + width] = bytes([rng.choice(INTERESTING)]) * width
        yield f"{kind} {number}", bytes(damaged[: len(data)])


def try_file(data: bytes, program: bytes | None, weights: list[bytes]) -> int:
    """Load and run in a forked child; its wait status."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        most = _address_space() + 10 * (len(data) + PLANNED) + HEADROOM
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        os._exit(_load_and_run(data, program, weights))
    return os.waitpid(child, 0)[1]


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _load_and_run(data: bytes, program: bytes | None, weights: list[bytes], sound: bool = False) -> int:
    """0: it ran; 1: refused; 2: it wanted more memory than it may have. `sound`: inputs are zero."""
    try:
        limits = {"planned_bytes": PLANNED, "instructions": 100_000}  # a damaged jump may loop
        if program is None:
            model = edgecore.load(data, weights, threads=1, limits=limits)
        else:
            model = edgecore.load(program, [data], threads=1, limits=limits)
        for name in model.methods:
            inputs = [_input(info, sound) for info in model[name].inputs]
            model[name](*inputs)
    except (edgecore.errors.EdgecoreError, ValueError, TypeError):
        return 1
    except MemoryError:
        return 2
    return 0


def _input(info: object, sound: bool) -> object:
    """Floats are zero; integers, which may be indices, small or hostile."""
    count = math.prod(info.shape)
    dtype = np.dtype(NUMPY_TYPES.get(info.dtype, info.dtype))
    if count * dtype.itemsize > 1 << 28:
        raise ValueError("too large an input to try")
    given = np.zeros(info.shape, dtype)
    if dtype.kind in "iu" and not sound:
        few = np.array([0, 1, 2, 0, 1, 3, -1, 1 << 40], np.int64).astype(dtype)
        given.reshape(-1)[:64] = few[np.arange(min(count, 64)) % len(few)]
    return given


def run(
    path: Path,
    count: int,
    seed: int,
    keep: Path | None,
    program: bytes | None,
    weights: list[bytes],
    only: list[str] | None = None,
) -> collections.Counter[str]:
    """Outcome -> number: `ran`, `refused`, `out of memory`, or `died: region, signal`."""
    data = path.read_bytes()
    outcomes: collections.Counter[str] = collections.Counter()
    assert _load_and_run(data, program, weights, sound=True) == 0, (
        f"{path} does not run unharmed"
    )  # the children inherit the libraries that it loaded
    for name, damaged in corruptions(data, count, seed, only):
        status = try_file(damaged, program, weights)
        if os.WIFSIGNALED(status):
            outcomes[f"died: {name.partition(' ')[0]}, {signal.Signals(os.WTERMSIG(status)).name}"] += 1
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{name.replace(' ', '_')}{path.suffix}").write_bytes(damaged)
        else:
            outcomes[("ran", "refused", "out of memory")[os.WEXITSTATUS(status)]] += 1
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--program", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--only", action="append", help="a kind of corruption such as flatbuffer or values")
    arguments = parser.parse_args()
    program = arguments.program.read_bytes() if arguments.program else None
    weights = [file.read_bytes() for file in arguments.data]
    outcomes = run(arguments.file, arguments.count, arguments.seed, arguments.keep, program, weights, arguments.only)
    for outcome, number in sorted(outcomes.items()):
        print(f"{number:8} {outcome}")
    return int(any(outcome.startswith("died") for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
