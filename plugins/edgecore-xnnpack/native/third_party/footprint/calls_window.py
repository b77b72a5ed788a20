"""Functions that yield calls to examine the kernels of depthwise and NCHW convolutions, pooling and resizing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from math import isqrt

from footprint.call import POINTER, Call, Provided, element_bytes, numbers, round_up, sizes_around, weights_of
from footprint.kernel import Kernel

FIRST_PASS = 9  # max pooling with larger windows reads its own output in later passes; kMaxPoolFirstPass in padding.h


SHARING = re.compile(r"xnn_qs8_qc8w_dwconv_.*_(?:9|25)p32c__avx512vnni$")
"""Depthwise kernels that compute several pixels at a time, which share columns of the window."""


def pixels_of(kernel: Kernel, taps: int, max_taps: int) -> list[tuple[int, int]]:
    """Return numbers of pixels, each with the distance of their pointers (input_stride) in pointers."""
    if not SHARING.match(kernel.name):
        return [(1, 0)]
    column = isqrt(max_taps)
    return [(1, column), *((pixels, column * step) for pixels in (3, 4, 5, 17) for step in (1, 2, column)), (2, taps)]


def depthwise(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    multipass = "buffer" in [name for _, name in kernel.parameters]
    if multipass:
        first, middle, last, tile, subtile, round_ = numbers(kernel, r"_(\d+)f(\d+)m(\d+)l(\d+)c(\d+)s(\d+)r__")
        sizes = [first + last - 1, first + last, first + last + 1, first + 2 * middle + last]
    else:
        first, tile = numbers(kernel, r"_(\d+)p(\d+)c__")
        sizes = [first - 1, first]
    bias, weight, extra = weights_of(kernel, "_dwconv_")
    source = element_bytes(kernel, "input")
    output = "output_ptr" if "output_ptr" in [name for _, name in kernel.parameters] else "output"
    target = element_bytes(kernel, output)
    accumulator = 2 if source == 2 else 4
    for taps in sizes:
        for n, (pixels, distance) in itertools.product(
            sizes_around(tile), pixels_of(kernel, taps, 0 if multipass else first)
        ):
            call = Call(f"{taps} taps, {n} channels, {pixels} pixels")
            if multipass:
                passes = max(0, -(-(taps - first - last) // middle))
                max_taps = first + passes * middle + last
                rounded = round_up(n, round_)
                columns = rounded // tile * tile + round_up(
                    rounded % tile, subtile
                )  # xnn_dwconv_multipass_weights_size
                # The padding after the accumulators: see buffer_size in convolution-nhwc.c.
                room = provided.multipass_bytes // source * accumulator
                call.buffer("buffer", n * accumulator, room, room)
            else:
                max_taps, columns = first, round_up(n, tile)  # convolution-nhwc.c: c_stride
            # The size of the zeros that replace pixels of the padding: zero_size = c_stride + XNN_EXTRA_BYTES in
            # convolution-nhwc.c.
            call.buffer("zero", n * source, (round_up(n, tile) - n) * source + provided.extra_bytes)
            image = call.buffer("pixel", n * source, provided.extra_bytes)
            count = (pixels - 1) * distance + taps
            pointers = [call.arguments["zero"] if i % 2 else image for i in range(count)]
            # The kernel reads (max_taps - taps) pointers after the end of the indirection buffer. The operator sets
            # them to `zero`.
            table = call.pointers("input", pointers, (max_taps - taps) * POINTER)
            after = range(count, count + max_taps - taps)
            call.memory.contents.update({table + POINTER * i: call.arguments["zero"] for i in after})
            call.arguments |= {"channels": n, "output_width": pixels, "input_stride": distance * POINTER}
            call.arguments |= {"output_increment": 0, "input_offset": 0, "kernel_size": taps}
            call.buffer("weights", columns * (bias + int(max_taps * weight) + extra))
            call.buffer(output, pixels * n * target)
            yield call


def pooling(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    """Yield calls of max, average and argmax pooling: up to 9 pixels in the first pass, up to 8 in each later pass."""
    names = [name for _, name in kernel.parameters]
    first, more, tile = numbers(kernel, r"_(\d+)(?:p(\d+))?x__\w*?_c(\d+)")
    multipass = more > 1
    source, target = element_bytes(kernel, "input"), element_bytes(kernel, "output")
    count = "pooling_elements" if "pooling_elements" in names else "kernel_elements"
    maximum = "_maxpool_" in kernel.name
    sizes = range(1, first + 1) if not multipass else range(1 if maximum else first + 1, first + 2 * more + 1)
    for taps in sizes:
        for n in sizes_around(tile):
            call = Call(f"{taps} pixels, {n} channels", arguments={"output_pixels": 1, count: taps, "channels": n})
            call.arguments |= {"input_offset": 0, "input_increment": 0, "output_increment": 0}
            # The size of the zeros that replace pixels of the padding: zero_bytes in average-pooling-nhwc.c.
            call.buffer("zero", n * source, provided.extra_bytes)
            pixel = call.buffer("pixel", n * source, provided.extra_bytes)
            # The operators (max-pooling-nhwc.c, average-pooling-nhwc.c, argmax-pooling-nhwc.c) allocate
            # first_pass_tile_size - 1 pointers more than there are pixels, which the kernel may read.
            table = call.pointers("input", [pixel] * taps, (first - 1) * POINTER)
            call.memory.contents.update({table + POINTER * (taps + i): pixel for i in range(first)})
            if multipass and not maximum:
                # The sizes of the buffers between passes: accumulation_buffer_size and index_buffer_size in
                # argmax-pooling-nhwc.c, and multipass_pixel_stride in average-pooling-nhwc.c, which is four times as
                # large in average pooling without a divisor for each pixel.
                accumulator = 2 if source == 2 else 4
                padded = (n + provided.multipass_bytes // source) * accumulator
                room = (4 * padded if "_avgpool_" in kernel.name else padded) - n * accumulator
                for name in {"buffer", "accumulation_buffer", "index_buffer"} & set(names):
                    call.buffer(name, n * accumulator, room, room)
            call.buffer("multiplier", source, 0)
            call.buffer("index", n * 4)
            # Later passes of max pooling read the output of earlier passes as whole vectors, also past its end. In this
            # case the delegate requires padding after its output tensors (padding.cpp).
            call.buffer("output", n * target, provided.extra_bytes if maximum and taps > FIRST_PASS else 0)
            yield call


def unpool(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    for taps in (1, 2, 4):
        for n in sizes_around(16):
            call = Call(f"{taps} pixels, {n} channels", arguments={"kernel_elements": taps, "channels": n, "fill": 0})
            call.buffer("input", n * 4, provided.extra_bytes)
            call.buffer("index", n * 4, provided.extra_bytes, holds_zeros=True)
            pixel = call.buffer("pixel", n * 4)
            call.pointers("output", [pixel] * taps)
            yield call


def resize(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_c(\d+)")
    source = element_bytes(kernel, "input")
    for n in sizes_around(tile):
        call = Call(f"{n} channels", arguments={"output_pixels": 1, "channels": n * source, "input_offset": 0})
        call.arguments["output_increment"] = 0
        pixel = call.buffer("pixel", n * source, provided.extra_bytes)
        call.pointers("input", [pixel] * 4)
        call.buffer("weights", 2 * element_bytes(kernel, "weights"))  # resize-bilinear-nhwc.c: 2 for each pixel
        call.buffer("output", n * source)
        yield call


def resize_planes(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_p(\d+)")
    source = element_bytes(kernel, "input")
    for n in sizes_around(tile):
        call = Call(
            f"{n} pixels", arguments={"output_pixels": n, "channels": 1, "input_offset": 0, "input_increment": 0}
        )
        pair = call.buffer("pixel", 2 * source, provided.sparse_bytes)
        call.pointers("input", [pair] * 2 * n)
        call.buffer("weights", 2 * n * source)  # resize-bilinear-nchw.c: 2 for each pixel
        call.buffer("output", n * source)
        yield call


def depthwise_planes(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    taps, stride, padding, rows, columns = numbers(kernel, r"_(\d)x\d(?:s(\d))?p(\d)__\w*?_(\d+)x(\d+)")
    size = element_bytes(kernel, "input")
    for height in range(1, 2 * rows * stride + 2):
        for width in sizes_around(columns * stride):
            for top in {padding, padding - 1} if stride == 2 else {padding}:
                below = (height + top + padding - taps) // stride + 1
                across = (width + 2 * padding - taps) // stride + 1
                if below < 1 or across < 1:
                    continue
                call = Call(f"{height} x {width}, {top} above")
                call.arguments = {"input_height": height, "input_width": width * size, "padding_top": top}
                call.buffer("input", height * width * size, provided.sparse_bytes)
                call.buffer("weights", (taps * taps + 1) * size)  # convolution-nchw.c: groups * (taps + bias)
                call.buffer("zero", width * size, 2 * provided.extra_bytes)  # convolution-nchw.c: zero_size
                call.buffer("output", below * across * size)
                yield call


def first_convolution(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    """Yield calls of a network's first convolution: 3 channels, NHWC to NCHW, kernel 3x3, stride 2, padding 1."""
    (columns,) = numbers(kernel, r"_3x3s2p1c3x(\d)__")
    size = element_bytes(kernel, "input")
    for height in range(1, 6):
        for width in sizes_around(6):
            for outputs in range(1, columns + 2):
                below, across = (height + 1) // 2, (width + 1) // 2
                call = Call(f"{height} x {width}, {outputs} outputs")
                call.arguments = {"input_height": height, "input_width": width, "output_y_start": 0}
                call.arguments |= {"output_y_end": below, "input_padding_top": 1, "output_channels": outputs}
                call.arguments |= {
                    "output_height_stride": across * size,
                    "output_channel_stride": below * across * size,
                }
                call.buffer("input", height * width * 3 * size, provided.extra_bytes)
                call.buffer("zero", width * 3 * size, provided.extra_bytes)  # convolution-nchw.c: zero_size
                call.buffer("weights", round_up(outputs, columns) * (27 + 1) * size)
                call.buffer("output", outputs * below * across * size)
                yield call


def sum_rows(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_[cu](\d+)")
    source, target = element_bytes(kernel, "input"), element_bytes(kernel, "output")
    for rows in (1, 6, 7, 8, 15):
        for n in sizes_around(tile):
            call = Call(
                f"{rows} rows, {n} channels", arguments={"rows": rows, "channels": n, "input_stride": n * source}
            )
            call.buffer("input", rows * n * source, provided.extra_bytes)
            call.buffer("zero", n * source, provided.extra_bytes)  # reduce-nd.c: zero_size
            # fp32 sums are computed in the output tensor, other sums in a workspace with padding (workspace_size in
            # reduce-nd.c).
            call.buffer("output", n * target, 0 if "f32_rdsum" in kernel.name else provided.extra_bytes)
            yield call
