"""Compute functions such as 1 / x with TOSA's integer operators, for positive int32 numbers of any magnitude."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgecore_tosa.builder.builder import Builder
from edgecore_tosa.builder.lookup import ENTRIES, FRACTION, lookup
from edgecore_tosa.graph import Array, Tensor
from edgecore_tosa.schema import ArithmeticRightShift, DType, Op


@dataclass(frozen=True)
class Normalized:
    """A positive int32 tensor x, split as x = mantissa * 2**(32 - zeros) with the mantissa in [0.5, 1).

    Attributes:
        mantissa: The mantissa as an int16 table index: -32768 for 0.5, and 32767 for 1.
        zeros: Leading zeros of x, including the sign bit: 1 to 31.
    """

    mantissa: Tensor
    zeros: Tensor


def normalize(b: Builder, x: Tensor) -> Normalized:
    """Split positive int32 numbers x into mantissas and leading zeros."""
    zeros = b.compute(Op.CLZ, x)
    high = b.compute(Op.LOGICAL_LEFT_SHIFT, x, b.compute(Op.SUB, zeros, 1))
    offset = b.compute(Op.SUB, high, 3 * 2**29)  # in [-2**29, 2**29)
    return Normalized(b.rescale(offset, 2.0**-14, DType.INT16), zeros)


def of_mantissa(b: Builder, x: Normalized, function: Callable[[Array], Array], bits: int) -> Tensor:
    """Return function(mantissa of x) * 2**bits as int32, from a lookup table; |result| must be below 2**22."""
    points = function(0.5 + np.arange(ENTRIES) / (2 * (ENTRIES - 1))) * 2**bits
    return lookup(b, x.mantissa, np.rint(points / FRACTION))


def shift_right(b: Builder, x: Tensor, bits: Tensor | int) -> Tensor:
    """Return x / 2**bits, rounded."""
    shift = bits if isinstance(bits, Tensor) else b.number(bits, DType.INT32, x.rank)
    shape = tuple(np.broadcast_shapes(x.shape, shift.shape))
    return b.emit(Op.ARITHMETIC_RIGHT_SHIFT, [x, shift], shape, DType.INT32, ArithmeticRightShift(True))
