"""Calls of micro-kernels as XNNPACK's operators make them: the arguments, and how many bytes each buffer has.

A kernel's parameters say of which kind it is. For each kind there is a function that yields calls over sizes around
the kernel's tile. A buffer's `size` is what the call is about (as many bytes as the tensor has), `readable` and
`writable` are what operators provide after it; the comment beside each names the allocation in XNNPACK's source. The
sizes come from the kernel's name (`4x16c8s4__`, `25p32c__`, `_u64`), which `padding` compares with the processor's
tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from footprint.kernel import Kernel
from footprint.memory import Memory
from footprint.nodes import is_vector
from footprint.source import NotUnderstood, size_of

POINTER = 8


@dataclass(frozen=True)
class Provided:
    """The library's constants, in bytes or entries."""

    extra_bytes: int  # XNN_EXTRA_BYTES, after inputs
    quantization_params: int  # XNN_EXTRA_QUANTIZATION_PARAMS, after dynamic quantization parameters
    multipass_bytes: int  # XNN_MULTIPASS_EXTRA_BYTES, after the accumulators of a pixel
    planes: int = 1  # of gemm configurations: blocks of inputs whose 4-bit weights share bytes

    @property
    def sparse_bytes(self) -> int:
        """After inputs of the operators over planes (runtime.c: the workspace ends with 2 * XNN_EXTRA_BYTES)."""
        return 2 * self.extra_bytes


@dataclass
class Room:
    """What may be read and written after a buffer's end."""

    readable: int = 0
    writable: int = 0


@dataclass
class Call:
    """One call of a kernel; `at` tells its sizes."""

    at: str
    memory: Memory = field(default_factory=Memory)
    arguments: dict[str, int] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)
    rooms: dict[str, Room] = field(default_factory=dict)

    def buffer(self, name: str, size: int, readable: int = 0, writable: int = 0) -> int:
        """Make a buffer; it is the argument of its name, if there is one."""
        address = self.memory.add(name, size)
        self.rooms[name] = Room(readable, writable)
        self.arguments.setdefault(name, address)
        return address

    def pointers(self, name: str, addresses: list[int], readable: int = 0) -> int:
        """Make a buffer of pointers."""
        address = self.buffer(name, len(addresses) * POINTER, readable)
        self.memory.contents.update({address + POINTER * i: value for i, value in enumerate(addresses)})
        return address


def up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def item(kernel: Kernel, parameter: str) -> int:
    """Bytes of the elements that a parameter points to."""
    for (name, _), found in kernel.parameters:
        if found == parameter:
            return 1 if is_vector(name) else size_of((name, 0), {})
    raise NotUnderstood(f"no parameter {parameter}")


def numbers(kernel: Kernel, pattern: str) -> list[int]:
    """The numbers that `pattern` finds in the kernel's name; an absent group is 1."""
    found = re.search(pattern, kernel.name)
    if found is None:
        raise NotUnderstood("a name without its tile")
    return [int(group or 1) for group in found.groups()]


def around(tile: int) -> list[int]:
    """Each remainder of a tile, alone and after whole tiles."""
    return sorted({*range(1, tile + 2), *range(2 * tile - 1, 2 * tile + 2)})


# ---- elementwise

BROADCAST = re.compile(r"_v(?:r?sub|add|mul|r?div|max|min|sqrdiff|r?prelu|r?copysign)c_")


def unary(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_u(\d+)|$")
    reduces = re.search(r"_(rsum|rmax|rmin|rminmax)_", kernel.name)
    source, target = item(kernel, "input"), item(kernel, "output")
    for n in around(tile):
        call = Call(f"{n} elements", arguments={"batch": n * source, "n": n * source})
        call.buffer("input", n * source, provided.extra_bytes)
        call.buffer("output", (2 if "rminmax" in kernel.name else 1 if reduces else n) * target)
        if "table" in [name for _, name in kernel.parameters]:
            call.buffer("table", 256)
        yield call


def binary(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_u(\d+)|$")
    names = [name for _, name in kernel.parameters]
    planes = 2 if "_vcmul_" in kernel.name else 1  # real parts, then imaginary ones
    for n in around(tile):
        call = Call(f"{n} elements", arguments={"batch": n * item(kernel, names[1])})
        second = 1 if BROADCAST.search(kernel.name) else n * planes
        call.buffer(names[1], n * planes * item(kernel, names[1]), provided.extra_bytes)
        call.buffer(names[2], second * item(kernel, names[2]), provided.extra_bytes)
        call.buffer("output", n * planes * item(kernel, "output"))
        yield call


def softmax(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_u(\d+)")
    size = item(kernel, "input")
    for n in around(tile):
        call = Call(f"{n} elements", arguments={"batch": n * size})
        call.buffer("input", n * size, provided.extra_bytes)
        call.buffer("max", size)
        call.buffer("output", n * size)
        call.buffer("sum", 4 if size == 4 else 2)
        yield call


def normalize(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    for n in range(1, 10):
        call = Call(f"{n} elements", arguments={"n": n})
        call.buffer("x", n, provided.extra_bytes)
        call.buffer("t", 256 * 4)
        call.buffer("y", n)
        yield call


def interleave(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    several = "m" in [name for _, name in kernel.parameters]
    size = item(kernel, "input")
    for n in around(64 // size):
        for m in range(4, 10) if several else numbers(kernel, r"_x([234])_"):
            call = Call(f"{m} of {n} elements", arguments={"n": n * size, "m": m})
            call.buffer("input", m * n * size, provided.extra_bytes)
            call.buffer("output", m * n * size)
            yield call


# ---- matrices

# Of each output: bytes of its bias (or of the sum of its weights), of each weight, and of scales and what else follows
# (bias_element_size, log2_filter_element_size and extra_weights_bytes of src/operators/*.c).
WEIGHTS = {
    "f32": (4, 4.0, 0), "f16": (2, 2.0, 0), "f16_f32acc": (2, 2.0, 0), "f32_qc8w": (4, 1.0, 4), "f32_qc4w": (4, 0.5, 4),
    "qs8": (4, 1.0, 0), "qs8_qc8w": (4, 1.0, 4), "qu8": (4, 1.0, 0), "qd8_f32_qc8w": (4, 1.0, 8),
    "qd8_f16_qc8w": (4, 1.0, 8), "qd8_f32_qc4w": (4, 0.5, 8), "qd8_f16_qc4w": (4, 0.5, 8),
    "qd8_f32_qb4w": (4, 0.5, 4), "qd8_f16_qb4w": (4, 0.5, 4),
}  # fmt: skip
BLOCK = 32  # inputs that share a scale: the smallest number that XNNPACK takes (XNN_MIN_BLOCKSIZE)
TILE = r"ukernel_(\d+)x(\d+)(?:c(\d+))?(?:s(\d+))?__"


def weights_of(kernel: Kernel, operation: str) -> tuple[int, float, int]:
    kind = kernel.name[len("xnn_") : kernel.name.index(operation)]
    if kind not in WEIGHTS:
        raise NotUnderstood(f"weights of {kind}")
    return WEIGHTS[kind]


def matrix_sizes(rows: int, columns: int, group: int, step: int) -> Iterator[tuple[int, int, int]]:
    """Rows, columns and inputs: each remainder of the tile once, with the others at their ends."""
    widths = around(max(group, 4)) if step == 1 else [step, 2 * step, 3 * step]
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
    source, target = item(kernel, "a"), item(kernel, "c")
    for m, n, k in matrix_sizes(rows, columns, kr * sr * provided.planes, BLOCK if blocks else 1):
        call = Call(f"{m} x {n}, {k} inputs")
        whole = up(k, provided.planes)  # fully-connected-nc.c, reshape: input_channels
        call.arguments = {"mr": m, "nc": n, "kc": whole * source, "a_stride": k * source, "cm_stride": n * target}
        call.arguments["cn_stride"] = columns * target
        call.fields = {"scalar.blocksize": BLOCK}
        call.buffer("a", m * k * source, provided.extra_bytes)
        inputs = up(k, kr * sr * provided.planes)  # fully-connected-nc.c: k_stride
        scales = k // BLOCK * 2 if blocks else 0
        call.buffer(
            "w", up(n, columns) * (bias + int(inputs * weight + 0.5) + extra + scales)
        )  # n_stride * weights_stride
        call.buffer("c", m * n * target)
        call.buffer("quantization_params", m * 8, provided.quantization_params * 8)
        yield call


def igemm(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    rows, columns, kr, sr = numbers(kernel, TILE)
    bias, weight, extra = weights_of(kernel, "_igemm_")
    source, target = item(kernel, "a"), item(kernel, "c")
    taps = 2
    for m, n, k in matrix_sizes(rows, columns, kr * sr, 1):
        for padding in (False, True):
            call = Call(f"{m} x {n}, {k} inputs{', padding' if padding else ''}")
            call.arguments = {"mr": m, "nc": n, "kc": k * source, "ks": taps * rows * POINTER, "cm_stride": n * target}
            call.arguments |= {"cn_stride": columns * target, "a_offset": 0}
            inputs = up(k, kr * sr)
            # convolution-nhwc.c, deconvolution-nhwc.c: zero_size = k_stride + XNN_EXTRA_BYTES
            call.buffer("zero", k * source, (inputs - k) * source + provided.extra_bytes)
            call.buffer("zero_data", k * source, (inputs - k) * source + provided.extra_bytes)
            image = call.buffer("input", k * source, provided.extra_bytes)
            # Rows past the last of the image point at the last (indirection.c), so there is a pointer for each.
            call.pointers("a", [call.arguments["zero"] if padding else image] * taps * rows)
            call.buffer("w", up(n, columns) * (bias + int(taps * inputs * weight) + extra))
            call.buffer("c", m * n * target)
            call.buffer("quantization_params", 8)  # one for an image
            yield call


def pack(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    columns, kr, sr = numbers(kernel, r"ukernel_x(\d+)(?:c(\d+))?(?:s(\d+))?__")
    size, bias = item(kernel, "weights"), item(kernel, "bias")
    for _, n, k in matrix_sizes(1, columns, kr * sr, 1):
        for with_bias in (True, False):
            call = Call(f"{n} outputs of {k}{'' if with_bias else ', no bias'}")
            call.arguments = {"g": 1, "nc": n, "kc": k, "nr": columns, "kr": kr, "sr": sr, "scale": 0, "extra_bytes": 0}
            call.fields = {"input_zero_point": 0}
            call.buffer("weights", n * k * size, provided.extra_bytes)
            if with_bias:
                call.buffer("bias", n * bias, provided.extra_bytes)
            call.arguments.setdefault("bias", 0)
            call.buffer("packed_weights", up(n, columns) * (up(k, kr * sr) * size + (4 if size == 1 else size)))
            yield call


def scale_and_add(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    tile, rows = numbers(kernel, r"_c(\d+)__\w+_(\d+)x")
    size = item(kernel, "input")
    for n in around(tile):
        for m in range(1, rows + 2):
            call = Call(f"{m} rows of {n}", arguments={"rows": m, "channels": n * size})
            call.arguments |= {"input_stride": n * size, "output_stride": n * size}
            call.buffer("input", m * n * size, provided.extra_bytes)
            call.buffer("weights", up(n, tile) * 2 * size)  # convolution-nhwc.c, create_vmulcaddc_path: c_stride
            call.buffer("output", m * n * size)
            yield call


def sparse(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    tile, block = numbers(kernel, r"ukernel_(\d+)x(\d+)__")
    size = item(kernel, "input")
    for pixels in around(tile):
        for outputs in range(1, 2 * block + 2):
            blocks = outputs // block + outputs % block
            counts = [i % 3 for i in range(blocks)]
            values = outputs + sum(count * (block if i < outputs // block else 1) for i, count in enumerate(counts))
            call = Call(f"{outputs} outputs, {pixels} pixels", arguments={"mc": pixels * size, "nc": outputs})
            call.arguments["output_stride"] = pixels * size
            call.buffer("input", pixels * size, provided.sparse_bytes)
            # convolution-nchw.c, packed_weights_size: the increments are followed by the counts, those by the values,
            # and the values by XNN_EXTRA_BYTES.
            counters = call.buffer("nidx_nnzmap", blocks * 4, values * size)
            call.memory.contents.update({counters + 4 * i: count for i, count in enumerate(counts)})
            call.buffer("widx_dmap", sum(counts) * 4, blocks * 4)
            call.buffer("weights", values * size, provided.extra_bytes)
            call.buffer("output", outputs * pixels * size)
            yield call


# ---- windows


def depthwise(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    multipass = "buffer" in [name for _, name in kernel.parameters]
    if multipass:
        first, middle, last, tile, subtile, round_ = numbers(kernel, r"_(\d+)f(\d+)m(\d+)l(\d+)c(\d+)s(\d+)r__")
        sizes = [first + last - 1, first + last, first + last + 1, first + 2 * middle + last]
    else:
        first, tile = numbers(kernel, r"_(\d+)p(\d+)c__")
        sizes = [first - 1, first]
    bias, weight, extra = weights_of(kernel, "_dwconv_")
    source = item(kernel, "input")
    output = "output_ptr" if "output_ptr" in [name for _, name in kernel.parameters] else "output"
    target = item(kernel, output)
    accumulator = 4
    for taps in sizes:
        for n in around(tile):
            call = Call(f"{taps} taps, {n} channels")
            if multipass:
                passes = max(0, -(-(taps - first - last) // middle))
                held = first + passes * middle + last
                rounded = up(n, round_)
                columns = rounded // tile * tile + up(rounded % tile, subtile)  # xnn_dwconv_multipass_weights_size
                # convolution-nhwc.c: buffer_size
                room = provided.multipass_bytes // source * accumulator
                call.buffer("buffer", n * accumulator, room, room)
            else:
                held, columns = first, up(n, tile)  # convolution-nhwc.c: c_stride
            # convolution-nhwc.c: zero_size = c_stride + XNN_EXTRA_BYTES
            call.buffer("zero", n * source, (up(n, tile) - n) * source + provided.extra_bytes)
            image = call.buffer("pixel", n * source, provided.extra_bytes)
            pointers = [call.arguments["zero"] if i % 2 else image for i in range(taps)]
            # ... reads (tile_size - kernel_size) elements after the end of the indirection buffer. They are pointers
            # of whatever value, that the operator makes equal zero.
            table = call.pointers("input", pointers, (held - taps) * POINTER)
            call.memory.contents.update({table + POINTER * i: call.arguments["zero"] for i in range(taps, held)})
            call.arguments |= {"channels": n, "output_width": 1, "input_stride": 0, "output_increment": 0}
            call.arguments |= {"input_offset": 0, "kernel_size": taps}
            call.buffer("weights", columns * (bias + int(held * weight) + extra))
            call.buffer(output, n * target)
            yield call


def pooling(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    """Maximum, average and argument of the maximum; the first pass takes up to 9 pixels, each other up to 8."""
    names = [name for _, name in kernel.parameters]
    first, more, tile = numbers(kernel, r"_(\d+)(?:p(\d+))?x__\w*?_c(\d+)")
    multipass = more > 1
    source, target = item(kernel, "input"), item(kernel, "output")
    count = "pooling_elements" if "pooling_elements" in names else "kernel_elements"
    maximum = "_maxpool_" in kernel.name
    sizes = range(1, first + 1) if not multipass else range(1 if maximum else first + 1, first + 2 * more + 1)
    for taps in sizes:
        for n in around(tile):
            call = Call(f"{taps} pixels, {n} channels", arguments={"output_pixels": 1, count: taps, "channels": n})
            call.arguments |= {"input_offset": 0, "input_increment": 0, "output_increment": 0}
            # average-pooling-nhwc.c: zero_bytes
            call.buffer("zero", n * source, provided.extra_bytes)
            pixel = call.buffer("pixel", n * source, provided.extra_bytes)
            # max-pooling-nhwc.c, average-pooling-nhwc.c, argmax-pooling-nhwc.c: first_pass_tile_size - 1 more
            table = call.pointers("input", [pixel] * taps, (first - 1) * POINTER)
            call.memory.contents.update({table + POINTER * (taps + i): pixel for i in range(first)})
            if multipass and not maximum:
                # XNN_MULTIPASS_EXTRA_BYTES, as elements; average-pooling-nhwc.c multiplies all by 4 unless pixelwise
                room = provided.multipass_bytes // source * 4
                wide = 4 if "_pavgpool_" not in kernel.name and "_argmaxpool_" not in kernel.name else 1
                room += n * 4 * (wide - 1)
                for name in ("buffer", "accumulation_buffer", "index_buffer"):
                    if name in names:
                        call.buffer(name, n * (source if source == 2 and name == "buffer" else 4), room, room)
            call.buffer("multiplier", source, 0)
            call.buffer("index", n * 4)
            # With more passes the first one's results are read from the output, which workspace or caller pads.
            call.buffer("output", n * target, provided.extra_bytes if maximum and multipass else 0)
            yield call


def unpool(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    for taps in (1, 2, 4):
        for n in around(16):
            call = Call(f"{taps} pixels, {n} channels", arguments={"kernel_elements": taps, "channels": n, "fill": 0})
            call.buffer("input", n * 4, provided.extra_bytes)
            call.buffer("index", n * 4, provided.extra_bytes)
            pixel = call.buffer("pixel", n * 4)
            call.pointers("output", [pixel] * taps)
            yield call


def resize(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_c(\d+)")
    source = item(kernel, "input")
    for n in around(tile):
        call = Call(f"{n} channels", arguments={"output_pixels": 1, "channels": n * source, "input_offset": 0})
        call.arguments["output_increment"] = 0
        pixel = call.buffer("pixel", n * source, provided.extra_bytes)
        call.pointers("input", [pixel] * 4)
        call.buffer("weights", 2 * item(kernel, "weights"))  # resize-bilinear-nhwc.c: 2 for each pixel
        call.buffer("output", n * source)
        yield call


def resize_planes(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_p(\d+)")
    source = item(kernel, "input")
    for n in around(tile):
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
    size = item(kernel, "input")
    for height in range(1, 2 * rows * stride + 2):
        for width in around(columns * stride):
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
    """Images of three channels side by side in, planes out; 3x3 with stride 2 and padding 1."""
    (columns,) = numbers(kernel, r"_3x3s2p1c3x(\d)__")
    size = item(kernel, "input")
    for height in range(1, 6):
        for width in around(6):
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
                call.buffer("weights", up(outputs, columns) * (27 + 1) * size)
                call.buffer("output", outputs * below * across * size)
                yield call


def sum_rows(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (tile,) = numbers(kernel, r"_[cu](\d+)")
    source, target = item(kernel, "input"), item(kernel, "output")
    for rows in (1, 6, 7, 8, 15):
        for n in around(tile):
            call = Call(
                f"{rows} rows, {n} channels", arguments={"rows": rows, "channels": n, "input_stride": n * source}
            )
            call.buffer("input", rows * n * source, provided.extra_bytes)
            call.buffer("zero", n * source, provided.extra_bytes)  # reduce-nd.c: zero_size
            # reduce-nd.c: workspace_size; without one (fp32) the sums are made in the output itself
            call.buffer("output", n * target, 0 if "f32_rdsum" in kernel.name else provided.extra_bytes)
            yield call


# ---- moving


def transpose(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    (bits,) = numbers(kernel, r"_x(\d+)_transposec_")
    high, wide = numbers(kernel, r"ukernel__(\d+)x(\d+)_")
    size = bits // 8
    for height in around(high):
        for width in around(wide):
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
        for n in around(tile):
            call = Call(f"{rows} rows of {n} bytes", arguments={"rows": rows, "channels": n, "output_stride": n})
            call.arguments["fill_pattern"] = 0
            call.buffer("output", rows * n)
            yield call


def pad(kernel: Kernel, provided: Provided) -> Iterator[Call]:
    for rows in (1, 2):
        for n in around(17):
            for before, after in ((0, 0), (1, 2), (17, 3), (5, 33)):
                call = Call(
                    f"{rows} rows of {n} bytes between {before} and {after}", arguments={"rows": rows, "channels": n}
                )
                whole = before + n + after
                call.arguments |= {
                    "pre_padding": before,
                    "post_padding": after,
                    "input_stride": n,
                    "output_stride": whole,
                }
                call.arguments["fill_pattern"] = 0
                call.buffer("input", rows * n, provided.extra_bytes)
                call.buffer("output", rows * whole)
                yield call


Calls = Callable[[Kernel, Provided], Iterable[Call]]

KINDS: dict[tuple[str, ...], Calls] = {
    ("batch", "input", "output", "params"): unary,
    ("batch", "input", "output", "unused_params"): unary,
    ("batch", "input", "output", "table"): unary,
    ("n", "input", "output", "params"): unary,
    ("batch", "input_a", "input_b", "output", "params"): binary,
    ("batch", "mag", "sign", "output", "unused_params"): binary,
    ("batch", "sign", "mag", "output", "unused_params"): binary,
    ("batch", "input", "max", "output", "sum", "params"): softmax,
    ("n", "x", "t", "y"): normalize,
    ("n", "input", "output"): interleave,
    ("n", "m", "input", "output"): interleave,
    ("input", "output", "input_stride", "output_stride", "block_width", "block_height"): transpose,
}  # fmt: skip
# A kernel's parameters beside others that several kinds have.
MARKS: list[tuple[set[str], Calls]] = [
    ({"mr", "nc", "kc", "a", "a_stride", "w", "c"}, gemm),
    ({"mr", "nc", "kc", "ks", "a", "w", "c"}, igemm),
    ({"g", "nc", "kc", "packed_weights"}, pack),
    ({"rows", "channels", "input", "weights", "output"}, scale_and_add),
    ({"mc", "nc", "widx_dmap", "nidx_nnzmap"}, sparse),
    ({"channels", "output_width", "input", "weights", "zero"}, depthwise),
    ({"output_pixels", "kernel_elements", "channels"}, pooling),
    ({"output_pixels", "pooling_elements", "channels"}, pooling),
    ({"kernel_elements", "channels", "fill", "index"}, unpool),
    ({"output_pixels", "channels", "weights", "output_increment"}, resize),
    ({"output_pixels", "channels", "weights", "input_increment"}, resize_planes),
    ({"input_height", "input_width", "padding_top", "weights"}, depthwise_planes),
    ({"input_height", "input_width", "output_y_start", "weights"}, first_convolution),
    ({"rows", "channels", "input", "zero", "output"}, sum_rows),
    ({"element_size", "block_width", "block_height"}, transpose_any),
    ({"rows", "channels", "output", "fill_pattern", "pre_padding"}, pad),
    ({"rows", "channels", "output", "fill_pattern"}, fill),
]


def calls_of(kernel: Kernel) -> Calls:
    """How kernels with these parameters are called."""
    names = tuple(name for _, name in kernel.parameters)
    if names in KINDS:
        return KINDS[names]
    for mark, calls in MARKS:
        if mark <= set(names):
            return calls
    raise NotUnderstood(f"parameters {', '.join(names)}")
