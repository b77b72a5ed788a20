"""Functions that yield calls to examine kernels that move data: transpose, pad, fill."""

from __future__ import annotations

from collections.abc import Iterator

from footprint.call import Call, Provided, numbers, sizes_around
from footprint.kernel import Kernel


def transpose(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (bits,) = numbers(kernel, r"_x(\d+)_transposec_")
    high, wide = numbers(kernel, r"ukernel__(\d+)x(\d+)_")
    size = bits // 8
    for height in sizes_around(high):
        for width in sizes_around(wide):
            if height > high and width > wide:
                continue
            call = Call(f"{height} x {width}", arguments={"block_width": width, "block_height": height})
            call.arguments |= {"input_stride": width * size, "output_stride": height * size}
            call.buffer("input", height * width * size, provided.extra_bytes)
            call.buffer("output", height * width * size)
            yield call


def transpose_any(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    for size in range(1, 18):
        for height, width in ((1, 1), (2, 3), (3, 2)):
            call = Call(f"{height} x {width} of {size} bytes", arguments={"block_width": width, "block_height": height})
            call.arguments |= {"input_row_stride": width * size, "output_row_stride": height * size}
            call.arguments |= {"input_element_stride": size, "output_element_stride": size, "element_size": size}
            call.buffer("input", height * width * size, provided.extra_bytes)
            call.buffer("output", height * width * size)
            yield call


def fill(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_u(\d+)")
    for rows in (1, 2, 3):
        for n in sizes_around(tile):
            call = Call(f"{rows} rows of {n} bytes", arguments={"rows": rows, "channels": n, "output_stride": n})
            call.arguments["fill_pattern"] = 0
            call.buffer("output", rows * n)
            yield call


def pad(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    for rows in (1, 2):
        for n in sizes_around(17):
            for before, after in ((0, 0), (1, 2), (17, 3), (5, 33)):
                call = Call(
                    f"{rows} rows of {n} bytes between {before} and {after}", arguments={"rows": rows, "channels": n}
                )
                padded = before + n + after
                call.arguments |= {
                    "pre_padding": before,
                    "post_padding": after,
                    "input_stride": n,
                    "output_stride": padded,
                }
                call.arguments["fill_pattern"] = 0
                call.buffer("input", rows * n, provided.extra_bytes)
                call.buffer("output", rows * padded)
                yield call
