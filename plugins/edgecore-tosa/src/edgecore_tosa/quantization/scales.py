"""Represent quantization parameters, and compute the integer factors of TOSA's RESCALE."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from edgecore_tosa.graph import Array
from edgecore_tosa.schema import DType

LIMITS = {
    DType.INT4: (-7, 7),
    DType.INT8: (-128, 127),
    DType.INT16: (-32768, 32767),
    DType.INT32: (-(2**31), 2**31 - 1),
    DType.INT48: (-(2**47), 2**47 - 1),
}
"""Minimum and maximum of each integer dtype; TOSA's int4 excludes -8."""

_MIN_SHIFT, _MAX_SHIFT = 2, 62


@dataclass(frozen=True)
class Quantization:
    """The quantization parameters of a value: real number = (integer - zero_point) * scale.

    Attributes:
        scale: One number, or a tuple of a number per index of the dim `axis`.
        zero_point: The integer that represents 0; 0 if `axis` is set.
        dtype: The type of the integers.
        axis: The dim with a scale per index; None for a single scale.
        low, high: Least and greatest integer that occurs.
    """

    scale: float | tuple[float, ...]
    zero_point: int
    dtype: DType
    axis: int | None = None
    low: int = -128
    high: int = 127

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales as a tuple, which has one element for a single scale."""
        return self.scale if isinstance(self.scale, tuple) else (self.scale,)

    @property
    def step(self) -> float:
        """The scale of a value that has only one scale."""
        assert not isinstance(self.scale, tuple)
        return self.scale

    def scaled(self, factor: float) -> Quantization:
        """Return the parameters with the scale multiplied by `factor`."""
        return replace(self, scale=self.step * factor)

    def is_near(self, other: Quantization) -> bool:
        """Return True if the parameters are equal up to the rounding of a product of scales."""
        if isinstance(self.scale, tuple) or isinstance(other.scale, tuple):
            return self == other
        return math.isclose(self.scale, other.scale, rel_tol=1e-9) and replace(self, scale=other.scale) == other

    def integer(self, real: float) -> int:
        """Quantize a real number, and clamp the integer to `low` and `high`."""
        if math.isinf(real):
            return self.high if real > 0 else self.low
        return min(max(round(real / self.step) + self.zero_point, self.low), self.high)

    def real(self, integers: Array) -> Array:
        """Dequantize an array of integers to float64; `axis` is a dim of the array."""
        scales = np.array(self.scale)
        if self.axis is not None:
            scales = scales.reshape([-1 if dim == self.axis else 1 for dim in range(integers.ndim)])
        reals: Array = (integers.astype(np.float64) - self.zero_point) * scales
        return reals


def multiplier_and_shift(scale: float, bits: int = 32) -> tuple[int, int]:
    """Return (multiplier, shift) for TOSA's RESCALE, with which multiplier * 2**-shift approximates `scale` best.

    RESCALE demands shifts from 2 to 62, and multipliers in [2**30, 2**31) for 32 `bits` or [2**14, 2**15) for 16. A
    scale below about 2**-32 has a smaller multiplier, ultimately 0.

    Args:
        scale: The positive factor.
        bits: 32, or 16 for RESCALE with `scale32=False`.

    Raises:
        ValueError: The scale is negative, not finite, or larger than 2**(bits - 3).
    """
    if not 0 <= scale < math.inf:
        raise ValueError(f"no factor for RESCALE: {scale}")
    if scale == 0:
        return 0, _MIN_SHIFT
    fraction, exponent = math.frexp(scale)  # `fraction` is in [0.5, 1)
    multiplier, shift = round(fraction * 2 ** (bits - 1)), bits - 1 - exponent
    if multiplier == 2 ** (bits - 1):
        multiplier, shift = multiplier // 2, shift - 1
    if shift < _MIN_SHIFT:
        raise ValueError(f"{scale} is too large a factor for RESCALE")
    if shift > _MAX_SHIFT:
        multiplier, shift = multiplier >> min(shift - _MAX_SHIFT, 63), _MAX_SHIFT
    return multiplier, shift
