"""Find the function that yields calls to examine a kernel with, by the names of the kernel's parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from footprint.call import Call, Provided
from footprint.calls_elementwise import binary, interleave, normalize, softmax, unary
from footprint.calls_matrix import gemm, igemm, pack, scale_and_add, sparse
from footprint.calls_moving import fill, pad, transpose, transpose_any
from footprint.calls_window import (
    depthwise,
    depthwise_planes,
    first_convolution,
    pooling,
    resize,
    resize_planes,
    sum_rows,
    unpool,
)
from footprint.kernel import Kernel
from footprint.source import NotUnderstood

Calls = Callable[[Kernel, Provided], Iterable[Call]]

# The functions for kernels whose parameters have exactly these names, in this order.
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
# The functions for other kernels: the first entry counts whose names are all among the kernel's parameters.
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
    """Return the function that yields calls to examine a kernel with. Raises NotUnderstood for unknown parameters."""
    names = tuple(name for _, name in kernel.parameters)
    if names in KINDS:
        return KINDS[names]
    for mark, calls in MARKS:
        if mark <= set(names):
            return calls
    raise NotUnderstood(f"parameters {', '.join(names)}")
