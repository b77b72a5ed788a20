"""Functions that yield calls to examine elementwise kernels, and kernels that reduce rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from footprint.call import Call, Provided, element_bytes, numbers, sizes_around
from footprint.kernel import Kernel

BROADCAST = re.compile(r"_v(?:r?sub|add|mul|r?div|max|min|sqrdiff|r?prelu|r?copysign)c_")


def unary(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_u(\d+)|$")
    reduces = re.search(r"_(rsum|rmax|rmin|rminmax)_", kernel.name)
    source, target = element_bytes(kernel, "input"), element_bytes(kernel, "output")
    for n in sizes_around(tile):
        call = Call(f"{n} elements", arguments={"batch": n * source, "n": n * source})
        looks_up = "table" in [name for _, name in kernel.parameters]
        call.buffer("input", n * source, provided.extra_bytes, holds_zeros=looks_up)
        call.buffer("output", (2 if "rminmax" in kernel.name else 1 if reduces else n) * target)
        if looks_up:
            call.buffer("table", 256)
        yield call


def binary(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_u(\d+)|$")
    names = [name for _, name in kernel.parameters]
    planes = 2 if "_vcmul_" in kernel.name else 1  # complex numbers: the real parts, then the imaginary parts
    for n in sizes_around(tile):
        call = Call(f"{n} elements", arguments={"batch": n * element_bytes(kernel, names[1])})
        second = 1 if BROADCAST.search(kernel.name) else n * planes
        call.buffer(names[1], n * planes * element_bytes(kernel, names[1]), provided.extra_bytes)
        call.buffer(names[2], second * element_bytes(kernel, names[2]), provided.extra_bytes)
        call.buffer("output", n * planes * element_bytes(kernel, "output"))
        yield call


def softmax(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_u(\d+)")
    size = element_bytes(kernel, "input")
    for n in sizes_around(tile):
        call = Call(f"{n} elements", arguments={"batch": n * size})
        call.buffer("input", n * size, provided.extra_bytes)
        call.buffer("max", size)
        call.buffer("output", n * size)
        call.buffer("sum", 4 if size == 4 else 2)
        yield call


def normalize(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    for n in range(1, 10):
        call = Call(f"{n} elements", arguments={"n": n})
        call.buffer("x", n, provided.extra_bytes, holds_zeros=True)
        call.buffer("t", 256 * 4)
        call.buffer("y", n)
        yield call


def interleave(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    several = "m" in [name for _, name in kernel.parameters]
    size = element_bytes(kernel, "input")
    for n in sizes_around(64 // size):
        for m in range(4, 10) if several else numbers(kernel, r"_x([234])_"):
            call = Call(f"{m} of {n} elements", arguments={"n": n * size, "m": m})
            call.buffer("input", m * n * size, provided.extra_bytes)
            call.buffer("output", m * n * size)
            yield call
