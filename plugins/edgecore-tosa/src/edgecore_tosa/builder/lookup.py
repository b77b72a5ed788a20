"""Apply functions of one variable to integers with TOSA's operator TABLE, a lookup table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from edgecore_tosa.builder.builder import Builder, Value
from edgecore_tosa.graph import Array, Tensor
from edgecore_tosa.quantization.scales import Quantization
from edgecore_tosa.schema import DType, Op

Function = Callable[[torch.Tensor], torch.Tensor]
"""An elementwise function of a float64 tensor."""

ENTRIES = 513
"""Entries of an int16 table, one for every 128th integer; TABLE interpolates between them."""

LIMIT = 32767
"""Largest entry of an int16 table."""

FRACTION = 128
"""Number of input integers from one entry to the next. TABLE returns 128 times the interpolated entry."""


def table(b: Builder, x: Value, function: Function) -> Value:
    """Apply a function to a quantized value by a lookup table; the result has the quantization of the current node.

    From int8 to int8, the table holds every result. Between int8 and int16 in either direction, entries have 16 bits.
    For int16 inputs, TABLE interpolates linearly between 513 entries; `_interpolated` corrects the entries, which
    halves the error of the interpolation. Rounding twice adds at most 1 step, or 2 steps where the function leaves the
    result's range. Near a pole, such as the logarithm's at 0, the error is larger.
    """
    q, result = x.quantization, b.quantization
    assert q is not None and result is not None
    if q.dtype == result.dtype == DType.INT8:
        entries = _quantized(function, q, result, np.arange(-128, 128))
        tensor = b.emit(Op.TABLE, [x.tensor, b.constant(entries, DType.INT8)], x.tensor.shape, DType.INT8)
        return Value(tensor, x.order, result)
    if q.dtype == DType.INT8:
        integers = np.arange(-256, 257).clip(-128, 127)
        index = b.rescale(x.tensor, FRACTION, DType.INT16)
        points = _real(function, q, integers)
    else:
        index = x.tensor
        points = _interpolated(function, q)
    finer = 1.0 if result.dtype == DType.INT16 else float(FRACTION)
    points = np.nan_to_num(points / (result.step / finer), nan=0.0, posinf=1e9, neginf=-1e9)
    outside = np.abs(points) > LIMIT
    # If one of two adjacent entries exceeds 16 bits, clipping it would distort the interpolation between them. Store
    # half of each entry, so that more entries fit.
    if q.dtype == DType.INT16 and (outside[1:] != outside[:-1]).any():
        points, finer = points / 2, finer / 2
    raw = lookup(b, index, np.rint(points))
    tensor = b.rescale(raw, 1 / FRACTION / finer, result.dtype, 0, result.zero_point)
    return Value(tensor, x.order, result)


def _interpolated(function: Function, q: Quantization) -> Array:
    """Return the entries of the lookup table for a function of an int16 value.

    TABLE interpolates linearly between entries; the error is largest in the middle between two entries. If this error
    has the same sign before and after an entry, half of the smaller one is subtracted from the entry. This halves the
    maximum error: errors at the entries then have the opposite sign of errors in the middle.
    """
    halves = np.arange(2 * ENTRIES - 1) * (FRACTION // 2) - 32768
    values = _real(function, q, halves)
    points, middles = values[::2], values[1::2]
    with np.errstate(invalid="ignore"):
        errors = np.nan_to_num((points[1:] + points[:-1]) / 2 - middles, nan=0.0, posinf=0.0, neginf=0.0)
    beside = np.stack([np.append(errors, errors[-1]), np.append(errors[0], errors)])
    smaller = np.take_along_axis(beside, np.abs(beside).argmin(0)[None], 0)[0]
    return points - np.where(beside[0] * beside[1] > 0, smaller, 0.0) / 2


def lookup(b: Builder, index: Tensor, entries: Array) -> Tensor:
    """Look up int16 `index` in entries (clipped to 16 bits); return int32, 128 times the interpolated entry."""
    data = b.constant(np.clip(entries, -LIMIT - 1, LIMIT), DType.INT16)
    return b.emit(Op.TABLE, [index, data], index.shape, DType.INT32)


def exact_entries(numbers: Array) -> Array:
    """Return the entries of a table in which `lookup` of the index `256 * i + 1 - 32768` gives exactly `numbers[i]`.

    At this index, TABLE returns 127 * entry 2i + entry 2i + 1, so the numbers may have 22 bits and a sign.

    Args:
        numbers: 256 integers, of absolute value below 127 * 32767.
    """
    entries = np.zeros(ENTRIES, np.int64)
    entries[0:512:2], entries[1:512:2] = np.divmod(numbers.astype(np.int64), FRACTION - 1)
    return entries


def _real(function: Function, q: Quantization, integers: Array) -> Array:
    """Return a function's values in float64, at the float32 numbers that `integers` represent in the quantization q."""
    reals = torch.from_numpy((integers - q.zero_point).astype(np.float32) * np.float32(q.step))
    result: Array = function(reals.double()).numpy()
    return result


def _quantized(function: Function, q: Quantization, result: Quantization, integers: Array) -> Array:
    """Return a function's values at `integers`, rounded in float32 arithmetic like a node that quantizes."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = _real(function, q, integers).astype(np.float32) * np.float32(1 / result.step)
        rounded = np.nan_to_num(np.rint(scaled) + result.zero_point, nan=result.zero_point)
    clipped: Array = np.clip(rounded, result.low, result.high)
    return clipped
