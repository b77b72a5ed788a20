"""Interpolation of images."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd

import numpy as np
import torch

from edgecore.sdk import NodeQuery
from edgecore_tosa.builder.builder import NHWC, Builder, Value
from edgecore_tosa.builder.operator_table import FLOAT, Query, Row
from edgecore_tosa.graph import Tensor
from edgecore_tosa.operators.convolution import accumulator
from edgecore_tosa.operators.parts import range_of
from edgecore_tosa.schema import DepthwiseConv2d, DType, Op, Resize, ResizeMode

aten = torch.ops.aten

_MAX_SIZE = 16383
_MAX_UP = 2048
_MAX_FACTOR = 256
_MAX_FACTOR_OF_U55 = 32
_FACTORS_OF_U55 = (1, 2, 4, 8)
"""Factors by which Ethos-U55 and U65 can repeat pixels of a single image by RESIZE; other cases need TILE."""


@dataclass(frozen=True)
class Axis:
    """One axis (rows or columns) of TOSA's RESIZE: result index i reads the input at position (i * down + offset) / up.

    Attributes:
        size: Number of rows (or columns) of the input.
        count: Number of rows (or columns) of the result.
    """

    size: int
    count: int
    up: int
    down: int
    offset: int

    @property
    def border(self) -> int:
        """The border that RESIZE needs: (last position that is read - last row of the input) * `up`."""
        return (self.count - 1) * self.down - (self.size - 1) * self.up + self.offset

    @property
    def factor(self) -> int | None:
        """The number of result rows per input row; None if it is not an integer."""
        return self.count // self.size if self.count % self.size == 0 and self.up % self.down == 0 else None

    @property
    def is_possible(self) -> bool:
        """True if all numbers are within the limits of TOSA's RESIZE."""
        up = self.up
        return (
            max(self.size, self.count) <= _MAX_SIZE
            and up <= min(_MAX_UP, _MAX_FACTOR * self.down)
            and self.down < 16 * up
            and -up <= self.offset < 16 * up
            and -16 * up <= self.border < up
        )


def axis_of(size: int, count: int, factor: float | None, *, align_corners: bool, floors: bool) -> Axis:
    """Return RESIZE's numbers for the input positions that PyTorch reads along one dim.

    Args:
        size: Number of rows (or columns) of the input.
        count: Number of rows (or columns) of the result.
        factor: The scale factor, if the user gave it instead of the result's size.
        align_corners: The first and last results are exactly the first and last rows of the input.
        floors: PyTorch rounds positions down, as for `nearest`; `offset` corrects RESIZE, which rounds to nearest.
    """
    if align_corners and count > 1 and size > 1:
        step = Fraction(size - 1, count - 1)
        return Axis(size, count, step.denominator, step.numerator, 0)
    step = Fraction(size, count) if factor is None or align_corners else 1 / Fraction(factor).limit_denominator(_MAX_UP)
    up, down = 2 * step.denominator, 2 * step.numerator
    offset = (2 - up) // 2 if floors else (down - up) // 2
    common = gcd(up, down, offset)
    return Axis(size, count, up // common, down // common, offset // common)


def axes_of(
    target: object, sizes: tuple[int, ...], counts: tuple[int, ...], factors: list[float] | None, align_corners: bool
) -> tuple[Axis, Axis]:
    """Return the positions of rows and of columns that an upsampling reads; `sizes` and `counts` are (N, C, H, W)."""
    rows, columns = (
        axis_of(
            1 if align_corners and count == 1 else size,  # a single result row with align_corners reads only row 0
            count,
            factors[dim] if factors else None,
            align_corners=align_corners,
            floors=target is aten.upsample_nearest2d.vec,
        )
        for dim, (size, count) in enumerate(zip(sizes[2:], counts[2:], strict=True))
    )
    return rows, columns


def _nearest(b: Builder) -> Value:
    x = b.convert(b.input("input"), b.quantization)
    image, rows, columns = _operands(b, x)
    if not b.spec.is_u55:
        return Value(_resized(b, image, ResizeMode.NEAREST, rows, columns), NHWC, x.quantization)
    assert rows.factor and columns.factor
    return Value(_repeated(b, image, rows.factor, columns.factor), NHWC, x.quantization)


def _bilinear(b: Builder) -> Value:
    x = b.input("input")
    image, rows, columns = _operands(b, x)
    if x.quantization is None:
        return Value(_resized(b, image, ResizeMode.BILINEAR, rows, columns), NHWC)
    if not b.spec.is_u55:
        # The weights of RESIZE sum up to rows.up * columns.up, so a division by this product also restores the zero
        # point.
        sums = _resized(b, image, ResizeMode.BILINEAR, rows, columns)
        tensor = b.rescale(sums, 1 / (rows.up * columns.up), image.dtype)
        return b.convert(Value(tensor, NHWC, x.quantization), b.quantization)
    assert rows.factor and columns.factor
    return _blurred(b, x, image, rows.factor, columns.factor)


def _operands(b: Builder, x: Value) -> tuple[Tensor, Axis, Axis]:
    assert b.node is not None
    aligned = b.node.target is aten.upsample_bilinear2d.vec and b.argument("align_corners")
    rows, columns = axes_of(b.node.target, x.shape, b.shape, b.argument("scale_factors"), aligned)
    image = b.read(x, NHWC)
    image = b.slice(image, [0] * 4, (image.shape[0], rows.size, columns.size, image.shape[3]))
    return image, rows, columns


def _resized(b: Builder, image: Tensor, mode: ResizeMode, rows: Axis, columns: Axis) -> Tensor:
    dtype = image.dtype
    if mode == ResizeMode.BILINEAR and dtype in (DType.INT8, DType.INT16):
        dtype = accumulator(dtype)
    scale = b.sizes([rows.up, rows.down, columns.up, columns.down])
    inputs = [image, scale, b.sizes([rows.offset, columns.offset]), b.sizes([rows.border, columns.border])]
    shape = (image.shape[0], rows.count, columns.count, image.shape[3])
    return b.emit(Op.RESIZE, inputs, shape, dtype, Resize(mode))


def _repeated(b: Builder, image: Tensor, rows: int, columns: int) -> Tensor:
    """Repeat each row of an NHWC image `rows` times, and each column `columns` times."""
    n, height, width, channels = image.shape
    if n == 1 and rows == columns and rows in _FACTORS_OF_U55:
        axes = [Axis(size, size * rows, 2 * rows, 2, 1 - rows) for size in (height, width)]
        return image if rows == 1 else _resized(b, image, ResizeMode.NEAREST, *axes)
    for pixels, size, count in (
        (n * height * width, channels, columns),
        (n * height, width * columns * channels, rows),
    ):
        if count > 1:
            parts = b.reshape(image, (pixels, 1, size))
            image = b.emit(Op.TILE, [parts, b.sizes([1, count, 1])], (pixels, count, size), image.dtype)
    return b.reshape(image, (n, height * rows, width * columns, channels))


def _blur_weights(factor: int) -> list[int]:
    """Return the weights of a convolution that interpolates linearly an image whose pixels are repeated `factor` times.

    The weights are [1, 2, 1] for the factor 2 and [1, 1, 1] for 3; their sum is the divisor.
    """
    return [1] * factor if factor % 2 else [1, *[2] * (factor - 1), 1]


def _blurred(b: Builder, x: Value, image: Tensor, rows: int, columns: int) -> Value:
    """Interpolate by integer factors without RESIZE: repeat pixels, then average them by a depthwise convolution.

    The results equal RESIZE's. Beyond the border, the first and last pixels are repeated.
    """
    assert x.quantization is not None
    image = _repeated(b, image, rows, columns)
    for axis, factor in ((1, rows), (2, columns)):
        border, size = factor // 2, image.shape[axis]
        if border:
            first, last = range_of(b, image, axis, 0, border), range_of(b, image, axis, size - border, border)
            image = b.concat([first, image, last], axis)
    weights = np.outer(_blur_weights(rows), _blur_weights(columns))
    n, height, width, channels = image.shape
    form = DepthwiseConv2d([0] * 4, [1, 1], [1, 1], acc_type=accumulator(image.dtype))
    kernel = b.constant(np.broadcast_to(weights[:, :, None, None], (*weights.shape, channels, 1)), DType.INT8)
    zero_points = [b.number(x.zero_point, image.dtype), b.number(0, DType.INT8)]
    inputs = [image, kernel, b.constant(np.zeros(channels), form.acc_type), *zero_points]
    shape = (n, height - len(weights) + 1, width - weights.shape[1] + 1, channels)
    sums = b.emit(Op.DEPTHWISE_CONV2D, inputs, shape, form.acc_type, form)
    return b.finish(sums, x.quantization.step / int(weights.sum()), NHWC)


def _check(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    target = query.node.target
    aligned = target is aten.upsample_bilinear2d.vec and query.argument("align_corners")
    counts = tuple(query.node.meta["val"].shape)
    axes = axes_of(target, query.sizes("input"), counts, query.argument("scale_factors"), aligned)
    if not all(axis.is_possible for axis in axes):
        return "a factor that RESIZE does not allow"
    if query.spec.is_u55:
        if aligned:
            return "the target lacks resizing with align_corners"
        if not all(axis.factor and axis.factor <= _MAX_FACTOR_OF_U55 for axis in axes):
            return f"the target lacks resizing by a factor that is not whole or over {_MAX_FACTOR_OF_U55}"
    return None


_WHOLE = f"whole factors up to {_MAX_FACTOR_OF_U55}"

ROWS = (
    Row(aten.upsample_nearest2d.vec, FLOAT, "", _check, True, _nearest, on_u55=_WHOLE),
    Row(aten._upsample_nearest_exact2d.vec, FLOAT, "", _check, True, _nearest, on_u55=_WHOLE),
    Row(aten.upsample_bilinear2d.vec, FLOAT, "", _check, True, _bilinear, on_u55=f"{_WHOLE}, no align_corners"),
)
