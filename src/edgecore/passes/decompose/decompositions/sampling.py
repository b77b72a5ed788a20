"""Decomposition of `grid_sampler_3d` into reads of the pixels around each point.

The target runtime `edgecore` has a kernel for it: there, `rewrites/kernels.py` keeps the operator.
"""

from __future__ import annotations

import itertools
from functools import reduce

import torch
from torch import Tensor

from edgecore.passes.decompose.decompositions.various import decomposes

aten = torch.ops.aten

_NEAREST, _BORDER, _REFLECTION = 1, 1, 2


def _pixels(points: Tensor, size: int, padding: int, align_corners: bool) -> Tensor:
    """Convert coordinates from [-1, 1] to pixels of an axis, and move those outside as the padding mode says."""
    last = size - 1
    pixels = (points + 1) / 2 * last if align_corners else ((points + 1) * size - 1) / 2
    if padding == _REFLECTION:
        low, span = (0.0, last) if align_corners else (-0.5, size)
        if span == 0:
            return torch.zeros_like(pixels)
        distance = (pixels - low).abs()
        flips = torch.floor(distance / span)
        rest = distance - flips * span
        pixels = torch.where(torch.fmod(flips, 2) == 0, rest + low, span - rest + low)
    return pixels.clamp(0, last) if padding in (_BORDER, _REFLECTION) else pixels


def _neighbors(pixels: Tensor, mode: int) -> list[tuple[Tensor, Tensor]]:
    """Return the pixels of an axis that a point reads, and their weights."""
    if mode == _NEAREST:
        return [(torch.round(pixels), torch.ones_like(pixels))]
    before = torch.floor(pixels)
    return [(before, before + 1 - pixels), (before + 1, pixels - before)]


@decomposes(aten.grid_sampler_3d.default)
def _grid_sampler(volume: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    """Add up the pixels around each point times their weights; pixels outside count as zeros."""
    dtype = torch.promote_types(volume.dtype, torch.float32)  # coordinates need more digits than float16 has
    batch, channels, *sizes = volume.shape
    pixels, points = volume.to(dtype).flatten(2), grid.to(dtype)
    axes = [
        _neighbors(_pixels(points[..., 2 - axis], size, padding, align_corners), mode)
        for axis, size in enumerate(sizes)
    ]
    total = torch.zeros(1, dtype=dtype)
    for corner in itertools.product(*axes):
        inside = [(place >= 0) & (place < size) for (place, _), size in zip(corner, sizes, strict=True)]
        is_inside = reduce(torch.logical_and, inside)
        index = torch.zeros(1, dtype=torch.int64)
        for (place, _), size in zip(corner, sizes, strict=True):
            index = index * size + place.clamp(0, size - 1).to(torch.int64)
        weight = torch.where(is_inside, reduce(torch.mul, [weight for _, weight in corner]), 0.0)
        indices = index.flatten(1).unsqueeze(1).expand(batch, channels, -1)
        total = total + pixels.gather(2, indices) * weight.flatten(1).unsqueeze(1)
    return total.view(batch, channels, *grid.shape[1:4]).to(volume.dtype)
