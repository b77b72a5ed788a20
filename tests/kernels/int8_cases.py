"""Calls of the operators on int8 values."""

from __future__ import annotations

import torch

FULL = (-128, 127)


def random_int8(*shape, seed=0):
    return torch.randint(-128, 128, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(seed))


def channel_numbers(count, depth, seed=0):
    """Biases, multipliers and shifts, int32 [3, count], with which results of sums over `depth` products fill most of the range."""
    generator = torch.Generator().manual_seed(seed)
    bias = torch.randint(-(2**14), 2**14, (count,), dtype=torch.int32, generator=generator)
    multiplier = torch.randint(2**30, 2**31 - 1, (count,), dtype=torch.int64, generator=generator).to(torch.int32)
    shift = -torch.randint(6, 8, (count,), dtype=torch.int32, generator=generator) - depth.bit_length() // 2
    return torch.stack([bias, multiplier, shift.to(torch.int32)])


# batch, inputs, outputs, groups, size, kernel, stride, padding, dilation, upsampling, output padding
CONVOLUTIONS = {
    "pointwise": (2, 17, 11, 1, (5, 7), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), (0, 0)),
    "pointwise of many channels": (1, 300, 70, 1, (9, 9), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), (0, 0)),
    "pointwise with stride": (1, 8, 9, 1, (9, 8), (1, 1), (2, 2), (0, 0), (1, 1), (1, 1), (0, 0)),
    "plain": (2, 3, 16, 1, (23, 31), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0)),
    "one channel": (1, 1, 1, 1, (6, 6), (2, 3), (1, 1), (0, 1), (1, 1), (1, 1), (0, 0)),
    "groups": (2, 6, 9, 3, (7, 5), (3, 3), (1, 2), (1, 2), (1, 1), (1, 1), (0, 0)),
    "dilation": (1, 4, 5, 1, (11, 12), (3, 3), (1, 1), (2, 3), (2, 3), (1, 1), (0, 0)),
    "depthwise": (2, 5, 5, 5, (13, 37), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), (0, 0)),
    "depthwise with stride": (1, 4, 8, 4, (14, 19), (5, 5), (2, 2), (2, 2), (1, 1), (1, 1), (0, 0)),
    "depthwise with stride 3": (1, 3, 3, 3, (17, 18), (2, 4), (3, 3), (0, 1), (1, 1), (1, 1), (0, 0)),
    "depthwise with dilation": (1, 3, 3, 3, (17, 18), (3, 3), (2, 2), (3, 4), (2, 3), (1, 1), (0, 0)),
    "depthwise with cropping": (1, 3, 3, 3, (9, 8), (1, 1), (1, 1), (-1, -2), (1, 1), (1, 1), (0, 0)),
    "transposed": (2, 6, 8, 2, (5, 6), (3, 4), (1, 1), (1, 2), (1, 1), (2, 3), (1, 0)),
    "one channel for many": (2, 1, 5, 1, (49, 10), (10, 4), (2, 2), (5, 1), (1, 1), (1, 1), (0, 0)),
    "one dim": (2, 4, 6, 2, (19,), (5,), (2,), (2,), (1,), (1,), (0,)),
    "one dim depthwise": (2, 4, 4, 4, (70,), (4,), (1,), (3,), (1,), (1,), (0,)),
}


def convolution_arguments(case):
    batch, inputs, outputs, groups, size, kernel, *geometry = CONVOLUTIONS[case]
    weight = random_int8(outputs, inputs // groups, *kernel, seed=1)
    numbers = channel_numbers(outputs, weight[0].numel())
    lists = [list(values) for values in geometry]
    return (random_int8(batch, inputs, *size), weight, numbers, *lists, groups, -7, 5, -100, 110)


def cases():
    """Operator and arguments of each call."""
    for case in CONVOLUTIONS:
        yield f"convolution: {case}", "int8_convolution", convolution_arguments(case)
    for rows, depth, outputs in ((1, 1, 1), (1, 131, 10), (7, 32, 5), (8, 17, 19), (70, 65, 33)):
        weight = random_int8(outputs, depth, seed=1)
        arguments = (random_int8(rows, depth), weight, channel_numbers(outputs, depth), 3, *FULL)
        yield f"linear: {rows} {depth} {outputs}", "int8_linear", arguments
    yield "table", "int8_table", (random_int8(3, 1001), random_int8(256, seed=1))
    for a, b in (((3, 67), (3, 67)), ((2, 3, 5), (3, 1)), ((4, 1, 6), (5, 1)), ((), (4,)), ((2, 0), (2, 1)), ((), ())):
        pair = random_int8(*a), random_int8(*b, seed=1)
        yield f"add: {a} {b}", "int8_add", (*pair, -128, 127, 2**21, -(2**20), 20, 9, *FULL)
        yield f"mul: {a} {b}", "int8_mul", (*pair, 127, -128, 2**30 + 12345, -6, -9, -50, 90)
    for shape, dims, keepdim in (((2, 3, 7, 7), 2, True), ((5, 9), 1, False), ((4, 33), 2, False)):
        yield f"mean: {shape}", "int8_mean", (random_int8(*shape), dims, keepdim, -20, 2**31 - 1, -3, 10, *FULL)
    for shape, scale in (((1,), 0.1), ((3, 67), 0.03), ((2, 3, 10), 0.3), ((2, 5000), 0.001)):
        exponentials = torch.exp(-torch.arange(256, dtype=torch.float64) * scale)
        table = (exponentials * 2**16).round().to(torch.int32)
        yield f"softmax: {shape}", "int8_softmax", (random_int8(*shape), table, -128, *FULL)
    for a, b in (
        ((1, 1), (1, 1)),
        ((5, 33), (33, 7)),
        ((3, 9, 17), (3, 17, 40)),
        ((2, 3, 4, 70), (2, 3, 70, 67)),
        ((2, 3), (3, 0)),
    ):
        pair = random_int8(*a), random_int8(*b, seed=1)
        yield f"matmul: {a} {b}", "int8_matmul", (*pair, -128, 127, 2**30 + 12345, -9, 3, -90, *FULL[1:])
    rows, columns = [(0, 3, 3), (2, 7, 5), (9, 9, 1), (0, 11, 2)], [(1, 3, 2), (0, 9, 9), (4, 5, 1)]
    factors = torch.stack([2**30 + torch.arange(45), -torch.arange(45) % 7 - 7]).int()
    windows = [torch.tensor(table, dtype=torch.int32).T.contiguous() for table in (rows, columns)]
    yield "average", "int8_average", (random_int8(2, 3, 11, 9), *windows, factors, -20, 10, -100, 127)
    for shift in (30, 24, 1, 0, -1, -31):  # a shift to the left saturates
        yield (
            f"mul by 2^{shift}",
            "int8_mul",
            (random_int8(500), random_int8(500, seed=1), 0, 0, 2**30, shift, 0, *FULL),
        )


CASES = {name: (operator, arguments) for name, operator, arguments in cases()}
