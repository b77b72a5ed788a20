"""Call every kernel with damaged arguments in forked child processes, and count the outcomes.

    python tests/kernels/mutate_calls.py LIBRARY [--count 20000] [--seed 0]

A damaged file may pass any numbers, lists and tensors to a kernel. The kernel must either report an error or write its
result to the memory of its outputs. If a child process dies of a signal, or needs over 2 s of processor time for one
call, the call has failed and is printed. Each tensor ends at a page that cannot be accessed, so that an access past its
end is a signal. LIBRARY may be built with -fsanitize=undefined -fsanitize-trap=undefined
-fno-sanitize=float-cast-overflow: then undefined behaviour kills the child too. (Conversions of floats that the target
type cannot represent are excluded: their result depends on the processor, as in PyTorch.)
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import math
import mmap
import os
import random
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "interop")]

import torch
from checker import Catalog, Checker
from int8_cases import CASES as INT8_CASES
from int16_cases import CASES as INT16_CASES
from int16_layer_cases import CASES as INT16_LAYER_CASES
from native import KernelError, Library
from operator_cases import CALLS, CASES

SECONDS = 2
BATCH = 200
INTS = (-(2**63), -(2**31) - 1, -2, -1, 0, 1, 2, 3, 7, 2**31, 2**40, 2**63 - 1)
FLOATS = (math.nan, math.inf, -math.inf, 0.0, -1.0, 0.5, 1e300, 1e-300)
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.bool,
)
LIBC = ctypes.CDLL(None, use_errno=True)
Call = tuple[str, list[Any]]

OWN: list[Call] = [
    ("edgecore::scaled_dot_product_attention.out",
     [torch.ones(2, 4, 3, 5), torch.ones(2, 2, 7, 5), torch.ones(2, 2, 7, 6), mask, is_causal, 0.5, torch.ones(2, 4, 3, 6)])
    for mask, is_causal in ((torch.ones(3, 7), False), (torch.ones(2, 1, 3, 7, dtype=torch.bool), False), (None, True))
] + [
    ("aten::scatter_reduce.two_out",
     [torch.ones(4, 5), 1, torch.ones(3, 6, dtype=torch.int64), torch.ones(3, 6), reduce, False, torch.ones(4, 5)])
    for reduce in ("sum", "mean", "prod", "amax", "amin")
]  # fmt: skip
"""Calls of the operators that only edgecore has, besides those on integers."""


class Recorder:
    """Stands in for the library: records the valid calls and forwards them."""

    def __init__(self, library: Library) -> None:
        self.kernels, self.calls = library.kernels, list[Call]()
        self._library = library

    def call(self, name: str, *args: Any) -> None:
        self.calls.append((name, list(args)))
        self._library.call(name, *args)


def valid_calls(library: Library) -> list[Call]:
    recorder = Recorder(library)
    checker = Checker(Catalog(recorder))
    for case in CASES.values():
        with torch.no_grad(), torch._C._AutoDispatchBelowAutograd(), checker:
            case.call(*case.inputs)
    return (
        recorder.calls
        + [(name, [*call.args, *call.results]) for name, call in CALLS.items()]
        + OWN
        + list(integer_calls())
    )


def integer_calls() -> Iterator[Call]:
    """Yield the calls of operators on integers whose tensors are small."""
    for operator, arguments in (*INT8_CASES.values(), *INT16_CASES.values(), *INT16_LAYER_CASES.values()):
        if all(value.numel() <= 2000 for value in arguments if isinstance(value, torch.Tensor)):
            result = getattr(torch.ops.edgecore, operator)(*arguments)
            yield f"edgecore::{operator}.out", [*arguments, torch.empty_like(result)]


class Mutator:
    """Damages the arguments of a call. The same seed gives the same damage."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def damaged(self, args: list[Any]) -> list[Any]:
        args = list(args)
        for _ in range(self.rng.randint(1, 3)):
            i = self.rng.randrange(len(args))
            args[i] = self.value(args[i])
        return args

    def value(self, value: Any) -> Any:
        rng = self.rng
        if rng.random() < 0.05:
            return rng.choice([None, 1, 0.5, True, [], [1, 2], torch.ones(2)])
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, (list, tuple)):
            return self.items(list(value))
        if isinstance(value, bool):
            return not value
        if isinstance(value, float):
            return rng.choice(FLOATS)
        return rng.choice(INTS)

    def items(self, items: list[Any]) -> list[Any]:
        choice = self.rng.randrange(4)
        if choice == 0 or not items:
            return [*items, self.rng.choice(INTS if not items else items)]
        i = self.rng.randrange(len(items))
        if choice == 1:
            return items[:i] + items[i + 1 :]
        return [*items[:i], self.value(items[i]), *items[i + 1 :]]

    def tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        rng = self.rng
        choice = rng.randrange(6)
        if choice == 0:
            return tensor.to(rng.choice(DTYPES)) if not tensor.is_complex() else tensor.real.clone()
        if choice == 1:  # other contents: NaN, or indices that are out of range
            values = torch.tensor(FLOATS if tensor.is_floating_point() else (-1, 5, 100))
            return torch.empty_like(tensor).copy_(rng.choice(values))
        shape = list(tensor.shape)
        if choice == 2 and shape:
            shape[rng.randrange(len(shape))] = rng.choice((0, 1, 2, 5, 9))
        elif choice == 3:
            shape.insert(rng.randint(0, len(shape)), rng.choice((0, 1, 2)))
        elif choice == 4 and shape:
            shape.pop(rng.randrange(len(shape)))
        elif tensor.dim() >= 2:
            return tensor.transpose(0, -1).contiguous().transpose(0, -1)
        return torch.ones(shape, dtype=tensor.dtype)


def guarded(value: Any, pages: list[mmap.mmap]) -> Any:
    """Copy a tensor, or the tensors of a list, to memory that ends at an inaccessible page."""
    if isinstance(value, (list, tuple)):
        return [guarded(item, pages) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    nbytes = value.untyped_storage().nbytes()
    size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    pages.append(mmap.mmap(-1, size + mmap.PAGESIZE))
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages[-1]))
    assert LIBC.mprotect(ctypes.c_void_p(address + size), mmap.PAGESIZE, 0) == 0
    bytes_ = torch.frombuffer(pages[-1], dtype=torch.uint8, count=size) if size else torch.empty(0, dtype=torch.uint8)
    storage = bytes_[size - nbytes :].view(value.dtype) if nbytes else torch.empty(0, dtype=value.dtype)
    copy = storage.as_strided(value.shape, value.stride())
    return copy.copy_(value)


def mutations(calls: list[Call], count: int, seed: int) -> Iterator[Call]:
    for number in range(count):
        name, args = calls[number % len(calls)]
        if args:
            yield name, Mutator(random.Random(f"{seed} {number}")).damaged(args)


def try_calls(library: Library, batch: list[Call]) -> tuple[collections.Counter[str], int | None]:
    """Run a batch in a child process. Return the outcomes, and the index of the call that killed the child or None."""
    outcomes: collections.Counter[str] = collections.Counter()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for name, args in batch:
            pages: list[mmap.mmap] = []
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            try:
                library.call(name, *guarded(args, pages))
                os.write(write, b"r")
            except KernelError:
                os.write(write, b"s")
            except Exception:
                os.write(write, b"n")
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        letters = pipe.read().decode()
    status = os.waitpid(child, 0)[1]
    outcomes.update({"ran": letters.count("r"), "refused": letters.count("s"), "not a call": letters.count("n")})
    if not os.WIFSIGNALED(status):
        return outcomes, None
    outcomes[f"died: {signal.Signals(os.WTERMSIG(status)).name}"] += 1
    return outcomes, len(letters)


def run(library: Library, count: int, seed: int) -> collections.Counter[str]:
    """Return the number of calls for each outcome, and print each call that killed its process."""
    total: collections.Counter[str] = collections.Counter()
    pending = list(mutations(valid_calls(library), count, seed))
    while pending:
        outcomes, killer = try_calls(library, pending[:BATCH])
        total.update(outcomes)
        done = BATCH if killer is None else killer + 1
        if killer is not None:
            print(*pending[killer], flush=True)
        pending = pending[done:]
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    outcomes = run(Library(options.library), options.count, options.seed)
    for outcome, number in sorted(outcomes.items()):
        print(f"{number:8} {outcome}")
    return int(any(outcome.startswith("died") for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
