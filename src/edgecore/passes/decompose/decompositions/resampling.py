"""Decompositions of antialiased resampling into matrix products: rows @ image @ columns^T.

Each function has the arguments of its ATen operator, and `decompose` traces the function. The runtimes have a kernel
only for the bilinear filter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.fx import Node

from edgecore.ir.op_args import argument
from edgecore.passes.decompose.decompositions.pooling import has_static_space
from edgecore.passes.decompose.decompositions.various import decomposes

aten = torch.ops.aten

Filter = Callable[[Tensor], Tensor]
"""A function of nonnegative distances, in elements of the input; it is 0 beyond the filter's reach."""


def _applies(node: Node) -> bool:
    """Return True for a floating-point image of static size; for uint8, eager mode would round the filter's weights."""
    sizes = argument(node, "output_size")
    is_float = argument(node, "self").meta["val"].is_floating_point()
    return is_float and has_static_space(node) and all(isinstance(size, int) for size in sizes)


def _cubic(distance: Tensor) -> Tensor:
    """Return Keys' cubic filter with a = -0.5, as in Pillow; PyTorch's filter without antialiasing has a = -0.75."""
    near = (1.5 * distance - 2.5) * distance * distance + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    return torch.where(distance < 1, near, torch.where(distance < 2, far, 0.0))


def _lanczos(distance: Tensor) -> Tensor:
    """Return the Lanczos filter with three lobes, sinc(x) sinc(x/3)."""
    # avoid 0/0 in the next line; the last line sets the element to 1
    angle = torch.where(distance == 0, 1.0, distance * math.pi)
    product = 3 * torch.sin(angle) * torch.sin(angle / 3) / (angle * angle)
    return torch.where(distance == 0, 1.0, torch.where(distance < 3, product, 0.0))


def _weights(size: int, count: int, align_corners: bool, factor: float | None, weigh: Filter) -> Tensor:
    """Return the matrix [count, size] that resamples `size` elements to `count`.

    Args:
        size: Number of elements.
        count: Number of resampled elements.
        align_corners: True for a step of (size - 1) / (count - 1) elements per resampled element, as in PyTorch; False
            for a step of 1 / `factor`, or size / count without `factor`.
        factor: The scale factor that the caller passed, if any; it may differ from count / size.
        weigh: The filter, which is widened by the step if the image shrinks.
    """
    if align_corners:
        step = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        step = 1 / factor if factor else size / count
    centre = (torch.arange(count, dtype=torch.float64) + 0.5) * step
    place = torch.arange(size, dtype=torch.float64) + 0.5
    weights = weigh((place - centre.unsqueeze(1)).abs() / max(step, 1.0))
    return weights / weights.sum(1, keepdim=True)


def _resample(
    value: Tensor,
    output_size: Sequence[int],
    align_corners: bool,
    factors: Sequence[float | None],
    weigh: Filter,
) -> Tensor:
    (height, width), (rows, columns) = value.shape[-2:], output_size
    down = _weights(height, rows, align_corners, factors[0], weigh).to(value.dtype)
    across = _weights(width, columns, align_corners, factors[1], weigh).to(value.dtype)
    return down @ (value @ across.t())


@decomposes(aten._upsample_bicubic2d_aa.default, applies=_applies)
def _bicubic(
    value: Tensor,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    return _resample(value, output_size, align_corners, (scales_h, scales_w), _cubic)


@decomposes(aten._upsample_lanczos2d_aa.default, applies=_applies)
def _lanczos_resampling(
    value: Tensor,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    return _resample(value, output_size, align_corners, (scales_h, scales_w), _lanczos)
