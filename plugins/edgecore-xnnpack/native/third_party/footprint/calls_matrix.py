"""Functions that yield calls to examine GEMM kernels, and the kernels that pack the weights of a GEMM."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from footprint.call import POINTER, Call, Provided, element_bytes, numbers, round_up, sizes_around, weights_of
from footprint.kernel import Kernel

BLOCK = 32  # inputs that share a scale: the min number that XNNPACK accepts (XNN_MIN_BLOCKSIZE)
TILE = r"ukernel_(\d+)x(\d+)(?:c(\d+))?(?:s(\d+))?__"


EXTENDED = re.compile(r"xnn_qs8_qc8w_i?gemm_.*_\d+x32c4__avx512vnni$")
"""Kernels with the extensions of int8_convolution.py."""


def extensions(kernel: Kernel, taps: int) -> list[dict[str, int]]:
    """Return the parameters with which a kernel is examined: for each extension that it has, and without extensions."""
    if not EXTENDED.match(kernel.name):
        return [{}]
    used: list[dict[str, int]] = [{}, {"adds": 1}]
    if taps:
        used += [{"window_taps": taps}, {"window_taps": taps, "joins_taps": 1}, {"skips_padding": 1}]
    names = list(dict.fromkeys(name for fields in used for name in fields))
    return [{f"fp32_scalar.{name}": fields.get(name, 0) for name in names} for fields in used]


def add_other(call: Call, size: int) -> None:
    """Add the tensor that a kernel adds to its output, if the kernel has this extension."""
    if "fp32_scalar.adds" in call.fields:
        other = call.buffer("other", size)
        call.fields["fp32_scalar.sum_distance"] = other - call.arguments["c"]


def matrix_sizes(rows: int, columns: int, group: int, step: int) -> Iterator[tuple[int, int, int]]:
    """Yield sizes (rows, columns, inputs): one dim gets all remainders modulo its tile, while the others are fixed."""
    widths = sizes_around(max(group, 4)) if step == 1 else [step, 2 * step, 3 * step]
    more = {7, 8, 9, 15, 16, 17, 31, 32, 33} if step == 1 else set()
    for k in sorted({*widths, *more}):
        for m, n in ((1, 1), (rows, columns)):
            yield m, n, k
    for n in range(1, columns + 2):
        yield rows, n, max(step, group)
    for m in range(1, rows):
        yield m, columns, max(step, group) + (0 if step > 1 else 1)


def gemm(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    rows, columns, kr, sr = numbers(kernel, TILE)
    bias, weight, extra = weights_of(kernel, "_gemm_")
    blocks = "_qb4w_" in kernel.name
    source, target = element_bytes(kernel, "a"), element_bytes(kernel, "c")
    sizes = matrix_sizes(rows, columns, kr * sr * provided.planes, BLOCK if blocks else 1)
    for (m, n, k), fields in itertools.product(sizes, extensions(kernel, 0)):
        call = Call(f"{m} x {n}, {k} inputs", fields=dict(fields))
        padded_k = round_up(k, provided.planes)  # fully-connected-nc.c, reshape: input_channels
        call.arguments = {"mr": m, "nc": n, "kc": padded_k * source, "a_stride": k * source, "cm_stride": n * target}
        call.arguments["cn_stride"] = columns * target
        call.fields["scalar.blocksize"] = BLOCK
        call.buffer("a", m * k * source, provided.extra_bytes)
        inputs = round_up(k, kr * sr * provided.planes)  # fully-connected-nc.c: k_stride
        scales = k // BLOCK * 2 if blocks else 0
        call.buffer(
            "w", round_up(n, columns) * (bias + int(inputs * weight + 0.5) + extra + scales)
        )  # n_stride * weights_stride
        call.buffer("c", m * n * target)
        add_other(call, m * n * target)
        call.buffer("quantization_params", m * 8, provided.quantization_params * 8)
        yield call


def igemm(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    rows, columns, kr, sr = numbers(kernel, TILE)
    bias, weight, extra = weights_of(kernel, "_igemm_")
    source, target = element_bytes(kernel, "a"), element_bytes(kernel, "c")
    taps = 2
    for m, n, k in matrix_sizes(rows, columns, kr * sr, 1):
        for padding, fields in itertools.product((False, True), extensions(kernel, taps)):
            call = Call(f"{m} x {n}, {k} inputs{', padding' if padding else ''}", fields=dict(fields))
            call.arguments = {"mr": m, "nc": n, "kc": k * source, "ks": taps * rows * POINTER, "cm_stride": n * target}
            call.arguments |= {"cn_stride": columns * target, "a_offset": 0}
            inputs = round_up(k, kr * sr)
            # The size of the zeros that replace pixels of the padding: zero_size = k_stride + XNN_EXTRA_BYTES in
            # convolution-nhwc.c and deconvolution-nhwc.c.
            call.buffer("zero", k * source, (inputs - k) * source + provided.extra_bytes)
            call.buffer("zero_data", k * source, (inputs - k) * source + provided.extra_bytes)
            # Joined taps are neighbours in memory. In a window whose width is known, the rows are neighbours as well.
            # Others may be the same pixel.
            joined = fields.get("fp32_scalar.joins_taps", 0)
            shared = fields.get("fp32_scalar.window_taps", 0) and not joined
            image = call.buffer(
                "input", (rows + taps - 1 if shared else taps if joined else 1) * k * source, provided.extra_bytes
            )
            steps = [
                tap + row if shared else tap if joined else 0
                for tap, row in itertools.product(range(taps), range(rows))
            ]
            # The indirection buffer has pointers for all rows of the tile. A row is an output pixel. For rows after the
            # last output pixel, the operator repeats the pointers of the last output pixel (indirection.c).
            pixels = [call.arguments["zero"] if padding else image + step * k * source for step in steps]
            call.pointers("a", pixels)
            packed = round_up(taps * k, kr) if joined else taps * inputs
            call.buffer("w", round_up(n, columns) * (bias + int(packed * weight) + extra))
            call.buffer("c", m * n * target)
            add_other(call, m * n * target)
            call.buffer("quantization_params", 8)  # one entry for an image
            yield call


def pack(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    columns, kr, sr = numbers(kernel, r"ukernel_x(\d+)(?:c(\d+))?(?:s(\d+))?__")
    size, bias = element_bytes(kernel, "weights"), element_bytes(kernel, "bias")
    for _, n, k in matrix_sizes(1, columns, kr * sr, 1):
        for with_bias in (True, False):
            call = Call(f"{n} outputs of {k}{'' if with_bias else ', no bias'}")
            call.arguments = {"g": 1, "nc": n, "kc": k, "nr": columns, "kr": kr, "sr": sr, "scale": 0, "extra_bytes": 0}
            call.fields = {"input_zero_point": 0}
            call.buffer("weights", n * k * size, provided.extra_bytes)
            if with_bias:
                call.buffer("bias", n * bias, provided.extra_bytes)
            call.arguments.setdefault("bias", 0)
            call.buffer(
                "packed_weights", round_up(n, columns) * (round_up(k, kr * sr) * size + (4 if size == 1 else size))
            )
            yield call


def scale_and_add(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    tile, rows = numbers(kernel, r"_c(\d+)__\w+_(\d+)x")
    size = element_bytes(kernel, "input")
    for n in sizes_around(tile):
        for m in range(1, rows + 2):
            call = Call(f"{m} rows of {n}", arguments={"rows": m, "channels": n * size})
            call.arguments |= {"input_stride": n * size, "output_stride": n * size}
            call.buffer("input", m * n * size, provided.extra_bytes)
            call.buffer("weights", round_up(n, tile) * 2 * size)  # convolution-nhwc.c, create_vmulcaddc_path: c_stride
            call.buffer("output", m * n * size)
            yield call


def sparse(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    tile, block = numbers(kernel, r"ukernel_(\d+)x(\d+)__")
    size = element_bytes(kernel, "input")
    for pixels in sizes_around(tile):
        for outputs in range(1, 2 * block + 2):
            blocks = outputs // block + outputs % block
            counts = [i % 3 for i in range(blocks)]
            values = outputs + sum(count * (block if i < outputs // block else 1) for i, count in enumerate(counts))
            call = Call(f"{outputs} outputs, {pixels} pixels", arguments={"mc": pixels * size, "nc": outputs})
            call.arguments["output_stride"] = pixels * size
            call.buffer("input", pixels * size, provided.sparse_bytes)
            # The sparse weights are one allocation (packed_weights_size in convolution-nchw.c): `widx_dmap` (increments
            # of the input pointer), `nidx_nnzmap` (numbers of nonzero weights), `weights` (values) and XNN_EXTRA_BYTES.
            # A kernel may read beyond the end of the first two parts, because the next part follows there.
            counters = call.buffer("nidx_nnzmap", blocks * 4, values * size)
            call.memory.contents.update({counters + 4 * i: count for i, count in enumerate(counts)})
            call.buffer("widx_dmap", sum(counts) * 4, blocks * 4, holds_zeros=True)
            call.buffer("weights", values * size, provided.extra_bytes)
            call.buffer("output", outputs * pixels * size)
            yield call
