"""Fuse average pools of int8 and int16 values."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from edgecore.ir.graph import Editor, for_each
from edgecore.ir.op_args import argument
from edgecore.ir.program.constants import Constants
from edgecore.passes.integers.layers import MAX_DEPTH
from edgecore.passes.integers.values import Integers, call_operator, input_value, without_clamps

aten = torch.ops.aten


def fuse_average(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    """Fuse the quantize node `node` and an average pool before it, with one divisor, into a depthwise convolution."""
    pool, bounds = without_clamps(node.args[0])
    windows = _windows(pool)
    source = (
        input_value(pool.args[0], result.arithmetic.dtype) if windows is not None and len(pool.users) == 1 else None
    )
    if windows is None or source is None:
        return None
    kernel, stride, padding, count = windows
    channels, size = source.node.meta["val"].shape[1], math.prod(kernel)
    factor = result.arithmetic.fixed_point(source.scale / (result.scale * count))
    if not isinstance(channels, int) or size > MAX_DEPTH or factor is None:
        return None
    numbers = torch.tensor([-source.zero_point * size, *factor], dtype=result.arithmetic.sum_dtype)
    tensors = (
        constants.add(f"{node.name}_ones", torch.ones(channels, 1, *kernel, dtype=torch.int8)),
        constants.add(f"{node.name}_channels", numbers[:, None].repeat(1, channels)),
    )
    arguments = (source.node, *tensors, stride, padding, [1, 1], [1, 1], [0, 0], channels)
    return call_operator(editor, "convolution", arguments, [source], (), result, bounds)


def _divides(number: Any, size: Any) -> bool:
    """Return True if `number` windows of equal size exactly cover `size` elements of a dim; False if symbolic."""
    return isinstance(size, int) and isinstance(number, int) and number > 0 and size % number == 0


def _windows(pool: Node) -> tuple[list[int], list[int], list[int], int] | None:
    """Return kernel size, stride, padding and divisor of an average pool; None unless all windows share a divisor."""
    if pool.target is aten._adaptive_avg_pool2d.default:
        sizes, counts = pool.args[0].meta["val"].shape[-2:], argument(pool, "output_size")  # type: ignore[union-attr]
        pairs = list(zip(sizes, counts, strict=True))
        if pool.meta["val"].dim() != 4 or not all(_divides(n, size) for size, n in pairs):
            return None
        kernel = [size // n for size, n in pairs]
        return kernel, kernel, [0, 0], math.prod(kernel)
    if pool.target is not aten.avg_pool2d.default or pool.meta["val"].dim() != 4 or argument(pool, "ceil_mode"):
        return None
    kernel = for_each(argument(pool, "kernel_size"), 2)
    stride = for_each(argument(pool, "stride") or kernel, 2)
    padding, divisor = for_each(argument(pool, "padding"), 2), argument(pool, "divisor_override")
    if divisor is None and any(padding) and not argument(pool, "count_include_pad"):
        return None
    divisor = math.prod(kernel) if divisor is None else divisor
    return (kernel, stride, padding, divisor) if divisor > 0 else None


def fuse_windows(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    """Fuse the quantize node `node` with an average pool whose windows differ in size or divisor."""
    pool, bounds = without_clamps(node.args[0])
    is_pool = pool.target in (aten._adaptive_avg_pool2d.default, aten.avg_pool2d.default)
    source = input_value(pool.args[0], result.arithmetic.dtype) if is_pool and len(pool.users) == 1 else None
    shape = pool.meta["val"].shape
    if source is None or len(shape) != 4:
        return None
    pairs = list(zip(source.node.meta["val"].shape[2:], shape[2:], strict=True))
    if not all(isinstance(size, int) and size > 0 for pair in pairs for size in pair):
        return None
    override = None
    if pool.target is aten._adaptive_avg_pool2d.default:
        windows = [_adaptive_windows(size, count) for size, count in pairs]
    else:
        kernel = for_each(argument(pool, "kernel_size"), 2)
        lists = kernel, for_each(argument(pool, "stride") or kernel, 2), for_each(argument(pool, "padding"), 2)
        counts_padding, override = argument(pool, "count_include_pad"), argument(pool, "divisor_override")
        windows = [
            _pool_windows(size, count, width, stride, padding, counts_padding)
            for (size, count), width, stride, padding in zip(pairs, *lists, strict=True)
        ]
    if override is not None:
        if override < 0:
            return None
        windows = [[(begin, end, 1) for begin, end, _ in dim] for dim in windows]
    if math.prod(max(end - begin for begin, end, _ in dim) for dim in windows) > MAX_DEPTH:
        return None
    divisors = math.prod(max(divisor for _, _, divisor in dim) for dim in windows)
    if divisors > MAX_DEPTH:
        return None
    # The kernel looks up a window's factor at index divisor - 1, so the table has all divisors up to the largest.
    factors = [
        result.arithmetic.fixed_point(source.scale / (result.scale * (override or divisor)))
        for divisor in range(1, divisors + 1)
    ]
    if None in factors:
        return None
    tables = {"rows": windows[0], "columns": windows[1], "factors": factors}
    tensors = [
        constants.add(f"{node.name}_{name}", torch.tensor(table, dtype=torch.int32).T.contiguous())
        for name, table in tables.items()
    ]
    return call_operator(editor, "average", (source.node, *tensors), [source], (), result, bounds)


def _adaptive_windows(size: int, count: int) -> list[tuple[int, int, int]]:
    """Return begin, end and divisor of each of `count` windows that cover a dim."""
    bounds = [(i * size // count, -((i + 1) * -size // count)) for i in range(count)]
    return [(begin, end, end - begin) for begin, end in bounds]


def _pool_windows(
    size: int, count: int, kernel: int, stride: int, padding: int, counts_padding: bool
) -> list[tuple[int, int, int]]:
    """Return begin, end and divisor of each of `count` windows of `kernel` elements, which may overlap the padding."""
    windows = []
    for start in range(-padding, -padding + count * stride, stride):
        begin, end = max(start, 0), min(start + kernel, size)
        padded = min(start + kernel, size + padding) - start
        windows.append((begin, max(begin, end), padded if counts_padding else max(end - begin, 1)))
    return windows
