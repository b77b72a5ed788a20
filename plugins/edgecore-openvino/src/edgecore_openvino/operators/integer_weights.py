"""Build weights as computations on 8- or 4-bit constants, which OpenVINO keeps compressed in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
from openvino import opset15 as ops

_LIMITS = {ov.Type.i4: (-8, 7), ov.Type.u4: (0, 15), ov.Type.i8: (-128, 127), ov.Type.u8: (0, 255)}


def dequantized(integers: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, *, bits: int) -> Any:
    """Build (integers - zeros) * scales in float32 from compressed constants.

    If there are zero points, integers and zero points become unsigned, as OpenVINO's kernels for compressed weights
    require. Rows with an odd number of integers are stored in 8 bits, because OpenVINO's kernels for processors without
    AVX-512 need 4-bit rows that begin at whole bytes.

    Args:
        integers: int8 or uint8, any shape.
        scales: float32, with sizes of 1 in dims where integers share a scale.
        zeros: Integral numbers in the shape of `scales`; None for zeros.
        bits: 8, or 4 to store integers in 4 bits where possible. Integers beyond 4 bits, and rows of odd length, are
            always stored in 8 bits.

    Example:
        A matrix with a scale per row: `dequantized(integers, scales[:, None], None, bits=8)`.
    """
    has_zeros = zeros is not None and bool(np.any(zeros))
    values = [integers.astype(np.int32), *([zeros.astype(np.int32)] if has_zeros else [])]  # type: ignore[union-attr]
    for count in (4, 8) if bits == 4 and integers.shape[-1] % 2 == 0 else (8,):
        is_signed = integers.dtype == np.int8 and not has_zeros
        shift = 1 << (count - 1) if integers.dtype == np.int8 and has_zeros else 0
        dtype = {(4, True): ov.Type.i4, (4, False): ov.Type.u4, (8, True): ov.Type.i8, (8, False): ov.Type.u8}[
            count, is_signed
        ]
        shifted = [value + shift for value in values]
        low, high = _LIMITS[dtype]
        if all(value.min() >= low and value.max() <= high for value in shifted):
            break
    else:  # zero points that do not fit into 8 bits: subtract them in float32
        offsets = ops.constant(zeros.astype(np.float32))  # type: ignore[union-attr]
        difference = ops.subtract(ops.convert(ops.constant(integers), "f32"), offsets)
        return ops.multiply(difference, ops.constant(scales))
    result, *zero = (ops.convert(_constant(value, dtype), "f32") for value in shifted)
    for value in zero:
        result = ops.subtract(result, value)
    return ops.multiply(result, ops.constant(scales))


def _constant(values: np.ndarray, dtype: ov.Type) -> Any:
    """Create a constant of 8- or 4-bit integers. Two 4-bit integers share a byte, the first in the lower half."""
    if dtype in (ov.Type.i8, ov.Type.u8):
        return ops.constant(values.astype(np.int8 if dtype == ov.Type.i8 else np.uint8))
    halves = (values.reshape(-1) & 15).astype(np.uint8)
    halves = np.append(halves, np.zeros(len(halves) % 2, np.uint8))
    packed = halves[0::2] | (halves[1::2] << 4)
    return ov.op.Constant(ov.Tensor(packed, list(values.shape), dtype), shared_memory=False)
