"""Softmax and its logarithm."""

from __future__ import annotations

import math

import numpy as np
import torch

from edgecore_tosa.builder import Builder, Value
from edgecore_tosa.graph import Tensor
from edgecore_tosa.operators.normalize import Normalized, normalize, of_mantissa, shift_right
from edgecore_tosa.operators.table import FLOAT, Query, Row
from edgecore_tosa.operators.tables import ENTRIES, FRACTION, exact_entries, lookup
from edgecore_tosa.schema import DType, Op

aten = torch.ops.aten

_RANGE = 11.0
"""Differences below minus this have the exponential 0 for int16: e**-11 is half a step of a result of 16 bits."""


class _Exponentials:
    """The exponentials of a quantized value along a dim, each divided by that of the maximum.

    Attributes:
        differences: The integers of the value less their maximum, int32.
        terms: The exponentials times 2**bits, int32.
        total: Their sum: from 2**bits to less than 2**31.
        bits: See `terms`.
    """

    def __init__(self, b: Builder, x: Value, axis: int) -> None:
        assert x.quantization is not None
        count, step = x.tensor.shape[axis], x.quantization.step
        whole = b.rescale(x.tensor, 1.0, DType.INT32)
        largest = b.rescale(b.reduce(Op.REDUCE_MAX, x.tensor, axis), 1.0, DType.INT32)
        self.differences = b.compute(Op.SUB, whole, largest)
        self.bits = min(21, 30 - math.ceil(math.log2(count)))
        if x.quantization.dtype == DType.INT8:
            self.terms = self._exact(b, step)
        else:
            self.terms = self._interpolated(b, step)
        self.total = b.reduce(Op.REDUCE_SUM, self.terms, axis)

    def _exact(self, b: Builder, step: float) -> Tensor:
        """Return the exponential of each of 256 differences, exactly."""
        numbers = np.rint(np.exp(np.arange(-255, 1) * step) * 2**self.bits)
        index = b.compute(Op.ADD, b.compute(Op.MUL, self.differences, 2 * FRACTION), 255 * 2 * FRACTION + 1 - 32768)
        return lookup(b, b.rescale(index, 1.0, DType.INT16), exact_entries(numbers))

    def _interpolated(self, b: Builder, step: float) -> Tensor:
        """Return the interpolated exponentials; 2**-11 * 11 is the distance of entries, so the error is below 2**-15."""
        shifted = b.compute(Op.ADD, self.differences, round(_RANGE / step / 2))
        index = b.rescale(shifted, step * 65536 / _RANGE, DType.INT16)
        points = np.exp((np.arange(ENTRIES) / (ENTRIES - 1) - 1) * _RANGE)
        curvature = (_RANGE / (ENTRIES - 1)) ** 2 / 16
        return lookup(b, index, np.rint(points * (1 - curvature) * 2 ** (self.bits - 7)))


def _softmax(b: Builder) -> Value:
    """The exponentials divided by their sum, which is normalized, so that its reciprocal is a table.

    For int8 each exponential is exact to 22 bits, or as many as its sum leaves in 31 bits, and the reciprocal to 16. So a
    result differs from the real softmax by less than count**2 / 2**31 + 2**-14 before it is rounded to its step: for
    rows of up to 1,000 elements by less than 0.15 of the step 1 / 256, and the integers by at most 1.
    """
    x = b.input()
    axis = x.axis(b.argument("dim"))
    if b.quantization is None:
        return Value(_real(b, x.tensor, axis), x.order)
    parts = _Exponentials(b, x, axis)
    total = normalize(b, parts.total)
    reciprocal = of_mantissa(b, total, lambda m: 0.5 / m, 21)  # of 2 * mantissa, times 2**21
    # term / total = term * reciprocal * 2**-21 * 2 * 2**-(32 - zeros); the product keeps 30 bits
    spare = 30 - parts.bits
    quotient = b.compute(Op.MUL, parts.terms, reciprocal, shift=21 - spare)
    # quotient = term * 2**spare / (2 * mantissa); so the result is quotient * 2**(zeros - 31 - spare)
    kept = 16
    shift = b.compute(Op.SUB, b.number(31 + spare - kept, DType.INT32, x.tensor.rank), total.zeros)
    return b.finish(shift_right(b, quotient, shift), 2.0**-kept, x.order)


def _log_softmax(b: Builder) -> Value:
    """The differences less the logarithm of the sum of exponentials; the error is less than 2**-13."""
    x = b.input()
    axis = x.axis(b.argument("dim"))
    if b.quantization is None:
        return Value(b.compute(Op.LOG, _real(b, x.tensor, axis)), x.order)
    assert x.quantization is not None
    parts = _Exponentials(b, x, axis)
    total = normalize(b, parts.total)
    logarithm = _logarithm(b, total, parts.bits)
    widest = max(x.quantization.step * (x.quantization.high - x.quantization.low), 16.0)
    bits = 29 - math.ceil(math.log2(widest))
    terms = b.rescale(parts.differences, x.quantization.step * 2**bits, DType.INT32)
    subtrahend = b.rescale(logarithm, 2.0 ** (bits - _LOG_BITS), DType.INT32)
    return b.finish(b.compute(Op.SUB, terms, subtrahend), 2.0**-bits, x.order)


_LOG_BITS = 22


def _logarithm(b: Builder, x: Normalized, bits: int) -> Tensor:
    """Return the natural logarithm of x / 2**bits, times 2**22."""
    mantissa = of_mantissa(b, x, lambda m: np.log(2 * m), _LOG_BITS)
    exponent = b.compute(Op.SUB, b.number(31 - bits, DType.INT32, x.zeros.rank), x.zeros)
    return b.compute(Op.ADD, mantissa, b.compute(Op.MUL, exponent, round(math.log(2) * 2**_LOG_BITS)))


def _real(b: Builder, x: Tensor, axis: int) -> Tensor:
    largest = b.reduce(Op.REDUCE_MAX, x, axis)
    terms = b.compute(Op.EXP, b.compute(Op.SUB, x, largest))
    return b.compute(Op.MUL, terms, b.compute(Op.RECIPROCAL, b.reduce(Op.REDUCE_SUM, terms, axis)))


def _check(query: Query) -> str | None:
    if not query.sizes("self"):
        return "an input without dims"
    if query.sizes("self")[query.argument("dim")] > _MAX_COUNT:
        return f"more than {_MAX_COUNT} elements along the dim"
    return None


_MAX_COUNT = 2048

ROWS = (
    Row(aten.softmax.int, FLOAT, "", _check, True, _softmax),
    Row(aten._softmax.default, FLOAT, "", _check, False, _softmax),
    Row(aten.log_softmax.int, FLOAT, "", _check, True, _log_softmax),
    Row(aten._log_softmax.default, FLOAT, "", _check, False, _log_softmax),
)
