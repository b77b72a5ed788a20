"""Calls of the operators on int16 values that are not layers."""

from __future__ import annotations

import torch

from edgecore.ir.operators.integer_operators import INT16, TABLE_LIMIT

FULL = (-(2**15), 2**15 - 1)
FACTORS = ((2**15, 1), (2**16 - 1, 1), (2**15, 15), (40000, 31), (50000, 32), (60000, 33), (2**15, 62), (2**16 - 1, 62))
"""Multipliers and shifts, at their limits and between."""


def random_int16(*shape, seed=0):
    """Return random values, a tenth of which are the largest and the smallest ones."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(*FULL, shape, dtype=torch.int16, generator=generator)
    kind = torch.rand(shape, generator=generator)
    return torch.where(kind < 0.05, FULL[0], torch.where(kind < 0.1, FULL[1], values)).to(torch.int16)


def smallest(*shape):
    return torch.full(shape, FULL[0], dtype=torch.int16)


def table_of_exponentials(scale):
    """Return the table of a softmax whose input has a scale."""
    exponents = torch.cat([256 * torch.arange(256.0), torch.arange(256.0)]).double()
    return (torch.exp(-exponents * scale) * 2**INT16.softmax_bits).round().to(torch.int32)


def elementwise_cases():
    everything = torch.arange(-(2**15), 2**15).to(torch.int16)
    steep = (torch.tensor([-1, 1], dtype=torch.int32) * TABLE_LIMIT).repeat(257)[:513]
    for bits in (9, 10, 15, 16):
        table = torch.randint(*FULL, (2**bits + 1,), dtype=torch.int32, generator=torch.Generator().manual_seed(bits))
        yield f"table: {bits} bits", "int16_table", (everything, table, -30000, 32767)
    yield "table: steep", "int16_table", (everything, steep, *FULL)
    yield "table: (3, 67)", "int16_table", (random_int16(3, 67), steep.flip(0) // 64, -500, 400)
    yield "table: no values", "int16_table", (random_int16(2, 0, 3), steep, *FULL)
    for factor in FACTORS:
        yield f"rescale: {factor}", "int16_rescale", (random_int16(5, 101), *factor, -20000, 32767)
        yield f"mul: {factor}", "int16_mul", (random_int16(500), random_int16(500, seed=1), *factor, *FULL)
    for shift in (1, 14, 30, 31, 32, 45, 62):
        pair = random_int16(500), random_int16(500, seed=1)
        yield f"add: shift {shift}", "int16_add", (*pair, 2**30, -(2**30), shift, *FULL)
    yield "add: smallest values", "int16_add", (smallest(9), smallest(9), 2**30, 2**30, 30, *FULL)
    yield "mul: smallest values", "int16_mul", (smallest(9), smallest(9), 2**16 - 1, 30, *FULL)
    for a, b in (((3, 67), (3, 67)), ((2, 3, 5), (3, 1)), ((4, 1, 6), (5, 1)), ((), (4,)), ((2, 0), (2, 1)), ((), ())):
        pair = random_int16(*a), random_int16(*b, seed=1)
        yield f"add: {a} {b}", "int16_add", (*pair, 123456, -(2**18), 18, *FULL)
        yield f"mul: {a} {b}", "int16_mul", (*pair, 54321, 30, -500, 20000)


def row_cases():
    for shape, dims, keepdim in (((2, 3, 7, 7), 2, True), ((5, 9), 1, False), ((4, 33), 2, False), ((0, 4), 1, True)):
        yield f"mean: {shape}", "int16_mean", (random_int16(*shape), dims, keepdim, 2**16 - 1, 18, -30000, 32767)
    yield "mean: deep", "int16_mean", (smallest(2, 70001), 1, False, 59999, 32, *FULL)
    for shape, scale in (
        ((), 0.1),
        ((1,), 0.1),
        ((3, 67), 0.0003),
        ((2, 3, 10), 0.02),
        ((0, 4), 1),
        ((2, 32767), 1e-5),
    ):
        arguments = (random_int16(*shape), table_of_exponentials(scale), 0, 32767)
        yield f"softmax: {shape}", "int16_softmax", arguments
    yield "softmax: equal values", "int16_softmax", (smallest(2, 2**15 - 1), table_of_exponentials(0), 1, 32767)


def matmul_cases():
    for a, b in (
        ((1, 1), (1, 1)),
        ((5, 33), (33, 7)),
        ((3, 9, 17), (3, 17, 40)),
        ((2, 3, 4, 70), (2, 3, 70, 67)),
        ((130, 600), (600, 50)),
        ((2, 3), (3, 0)),
        ((0, 3), (3, 2)),
    ):
        yield f"matmul: {a} {b}", "int16_matmul", (random_int16(*a), random_int16(*b, seed=1), 2**15, 34, -30000, 32767)
    yield "matmul: smallest values", "int16_matmul", (smallest(2, 2**15), smallest(2**15, 9), 2**16 - 1, 46, *FULL)
    yield "matmul: opposite", "int16_matmul", (smallest(2, 257), ~smallest(257, 9), 2**15, 39, *FULL)


def windows_of(*rows):
    """Return windows, int32 [3, count]: begins, ends and divisors."""
    return torch.tensor(rows, dtype=torch.int32).T.contiguous()


def average_cases():
    rows = windows_of((0, 3, 3), (2, 7, 5), (9, 9, 1), (0, 11, 2))
    columns = windows_of((1, 3, 2), (0, 9, 9), (4, 5, 1))
    factors = torch.stack([2**15 + 700 * torch.arange(45), torch.arange(45) % 7 + 15]).int()
    yield "average", "int16_average", (random_int16(2, 3, 11, 9), rows, columns, factors, -30000, 32767)
    yield "average: no images", "int16_average", (random_int16(0, 3, 11, 9), rows, columns, factors, *FULL)
    whole = windows_of((0, 256, 1)), windows_of((0, 128, 1)), torch.tensor([[2**16 - 1], [32]], dtype=torch.int32)
    yield "average: the largest window", "int16_average", (smallest(1, 1, 256, 128), *whole, *FULL)


CASES = {
    name: (operator, arguments)
    for cases in (elementwise_cases, row_cases, matmul_cases, average_cases)
    for name, operator, arguments in cases()
}
