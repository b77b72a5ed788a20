"""Softmax and log-softmax."""

from __future__ import annotations

import math

import numpy as np
import torch

from edgecore_tosa.builder.builder import Builder, Value
from edgecore_tosa.builder.lookup import ENTRIES, FRACTION, exact_entries, lookup
from edgecore_tosa.builder.mantissa import Normalized, normalize, of_mantissa, shift_right
from edgecore_tosa.builder.operator_table import FLOAT, Query, Row
from edgecore_tosa.graph import Tensor
from edgecore_tosa.operators.masks import hidden_elements
from edgecore_tosa.quantization.attention import is_mask
from edgecore_tosa.quantization.scales import LIMITS
from edgecore_tosa.schema import DType, Op

aten = torch.ops.aten

_MAX_COUNT = 2048
"""Maximum length of a row. With more elements, exponentials would have fewer than 19 bits, so that the sum has 31."""

_LOG_BITS = 22
"""Fractional bits of a logarithm."""

_RANGE = 10.4
"""For int16, differences below -_RANGE - log(count) get the exponential 0. In a row, the exact exponentials of such
differences add up to at most a step of 2**-15."""


class _Exponentials:
    """The exponentials exp(x - max(x)) of a quantized value x along a dim, and their sum, in int32.

    Attributes:
        unit: Factor from the integers of x to `whole`; for int8, the distance between indices of the lookup table.
        whole: The integers of x times `unit`, int32.
        largest: The maximum of `whole`.
        terms: The exponentials times 2**bits, int32.
        total: The sum of `terms`, from 2**bits to below 2**31.
        bits: Fractional bits of `terms`.
    """

    def __init__(self, b: Builder, x: Value, axis: int) -> None:
        assert x.quantization is not None
        count, step = x.tensor.shape[axis], x.quantization.step
        self.unit = 2 * FRACTION if x.quantization.dtype == DType.INT8 else 1
        whole, tensor, hidden = self._whole(b, x.tensor), x.tensor, hidden_elements(x)
        if hidden is not None:
            smallest = np.where(hidden, LIMITS[tensor.dtype][0] * self.unit, LIMITS[DType.INT32][1])
            whole = b.compute(Op.MINIMUM, whole, b.constant(smallest, DType.INT32))
            tensor = b.rescale(whole, 1 / self.unit, tensor.dtype)
        self.whole = whole
        self.largest = self._whole(b, b.reduce(Op.REDUCE_MAX, tensor, axis))
        self.bits = min(21, 30 - math.ceil(math.log2(count)))
        if x.quantization.dtype == DType.INT8:
            self.terms = self._exact(b, step)
        else:
            self.terms = self._interpolated(b, step, _RANGE + math.log(count))
        if hidden is not None:
            self.terms = b.compute(Op.MUL, self.terms, b.constant(~hidden, DType.INT32))
        self.total = b.reduce(Op.REDUCE_SUM, self.terms, axis)

    def _whole(self, b: Builder, x: Tensor) -> Tensor:
        return b.compute(Op.MUL, b.rescale(x, 1.0, DType.INT32), self.unit)

    def differences(self, b: Builder) -> Tensor:
        """Return the integers of x minus their maximum, times `unit`, as int32."""
        return b.compute(Op.SUB, self.whole, self.largest)

    def _exact(self, b: Builder, step: float) -> Tensor:
        """Look up the exponentials of all 256 possible differences of int8 values, exactly."""
        numbers = np.rint(np.exp(np.arange(-255, 1) * step) * 2**self.bits)
        lowest = b.compute(Op.SUB, self.largest, 255 * self.unit + 1 - 32768)
        index = b.compute(Op.SUB, self.whole, lowest)
        return lookup(b, b.rescale(index, 1.0, DType.INT16), exact_entries(numbers))

    def _interpolated(self, b: Builder, step: float, width: float) -> Tensor:
        """Return exponentials interpolated in a table; the relative error (width / 512)**2 / 16 is at most 2**-13.6."""
        reach = min(width, step * 65536)  # differences are at most step * 65536
        factor = max(reach / 65536 / step, 2.0**-16)
        shifted = b.compute(Op.ADD, self.differences(b), round(reach / step / 2))
        if 65536 / factor >= 2**31:  # clamp differences below the table, as RESCALE would exceed 32 bits
            shifted = b.compute(Op.MAXIMUM, shifted, -math.ceil(32768 * factor))
        index = b.rescale(shifted, 1 / factor, DType.INT16)
        points = np.exp((np.arange(ENTRIES) / (ENTRIES - 1) - 1) * reach)
        if reach == width:
            points[0] = 0.0  # set entry 0 to 0, because it also stands for all smaller differences
        curvature = (reach / (ENTRIES - 1)) ** 2 / 16
        wide = lookup(b, index, np.rint(points * (1 - curvature) * 2**15))
        return shift_right(b, wide, 15 + 7 - self.bits)


def _softmax(b: Builder) -> Value:
    """Emit a softmax: exponentials times the reciprocal of their sum, which a table gives for the sum's mantissa.

    For int8, exponentials are exact to 21 bits, or to fewer if the sum would exceed 31 bits, and the reciprocal is
    exact to 15 bits. So before rounding, a result differs from the exact softmax by less than count**2 / 2**30 +
    2**-14. For rows of up to 1,000 elements this is 0.27 of the step 1 / 256, so the integer differs by at most 1.
    """
    x = b.input()
    axis = x.axis(b.argument("dim"))
    if b.quantization is None:
        return Value(softmax_of_reals(b, x.tensor, axis), x.order)
    parts = _Exponentials(b, x, axis)
    total = normalize(b, parts.total)
    reciprocal = of_mantissa(b, total, lambda m: 0.5 / m, 21)  # the reciprocal of 2 * mantissa, times 2**21
    spare = 30 - parts.bits
    quotient = b.compute(Op.MUL, parts.terms, reciprocal, shift=21 - spare)
    # quotient = term * 2**spare / (2 * mantissa), so the softmax is quotient * 2**(zeros - 31 - spare).
    kept = 16
    shift = b.compute(Op.SUB, b.number(31 + spare - kept, DType.INT32, x.tensor.rank), total.zeros)
    return b.finish(shift_right(b, quotient, shift), 2.0**-kept, x.order)


def _log_softmax(b: Builder) -> Value:
    """Emit a log-softmax: x - max(x) - log(sum of exponentials); the error is below 2**-13."""
    x = b.input()
    axis = x.axis(b.argument("dim"))
    if b.quantization is None:
        return Value(b.compute(Op.LOG, softmax_of_reals(b, x.tensor, axis)), x.order)
    assert x.quantization is not None
    parts = _Exponentials(b, x, axis)
    total = normalize(b, parts.total)
    logarithm = _logarithm(b, total, parts.bits)
    widest = max(x.quantization.step * (x.quantization.high - x.quantization.low), 16.0)
    bits = 29 - math.ceil(math.log2(widest))
    terms = b.rescale(parts.differences(b), x.quantization.step * 2**bits / parts.unit, DType.INT32)
    subtrahend = b.rescale(logarithm, 2.0 ** (bits - _LOG_BITS), DType.INT32)
    return b.finish(b.compute(Op.SUB, terms, subtrahend), 2.0**-bits, x.order)


def _logarithm(b: Builder, x: Normalized, bits: int) -> Tensor:
    """Return the natural logarithm of x / 2**bits as int32 with 22 fractional bits."""
    mantissa = of_mantissa(b, x, lambda m: np.log(2 * m), _LOG_BITS)
    exponent = b.compute(Op.SUB, b.number(31 - bits, DType.INT32, x.zeros.rank), x.zeros)
    return b.compute(Op.ADD, mantissa, b.compute(Op.MUL, exponent, round(math.log(2) * 2**_LOG_BITS)))


def softmax_of_reals(b: Builder, x: Tensor, axis: int) -> Tensor:
    """Emit the softmax of floating-point numbers along dim `axis`."""
    largest = b.reduce(Op.REDUCE_MAX, x, axis)
    terms = b.compute(Op.EXP, b.compute(Op.SUB, x, largest))
    return b.compute(Op.MUL, terms, b.compute(Op.RECIPROCAL, b.reduce(Op.REDUCE_SUM, terms, axis)))


def _check(query: Query) -> str | None:
    if not query.sizes("self"):
        return "an input without dims"
    if query.sizes("self")[query.argument("dim")] > _MAX_COUNT:
        return f"more than {_MAX_COUNT} elements along the dim"
    return None


def _check_log(query: Query) -> str | None:
    source = query.argument("self")
    if is_mask(source) and query.parameters.of(source) is not None:
        return "logarithms of elements that a mask hides are not finite"
    return _check(query)


ROWS = (
    Row(aten.softmax.int, FLOAT, f"at most {_MAX_COUNT} elements along the dim", _check, True, _softmax),
    Row(aten._softmax.default, FLOAT, f"at most {_MAX_COUNT} elements along the dim", _check, False, _softmax),
    Row(aten.log_softmax.int, FLOAT, f"at most {_MAX_COUNT} elements along the dim", _check_log, True, _log_softmax),
    Row(
        aten._log_softmax.default,
        FLOAT,
        f"at most {_MAX_COUNT} elements along the dim",
        _check_log,
        False,
        _log_softmax,
    ),
)
