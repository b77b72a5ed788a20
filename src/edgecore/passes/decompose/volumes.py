"""Convolution and pooling of volumes [N, C, D, H, W] in terms of images, which every runtime has kernels for.

Each function takes what its ATen operator takes, and is traced in its place (`decompose.py`). N and the sizes of a volume
may be symbolic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from edgecore.ir.graph import for_each
from edgecore.passes.decompose.own_decompositions import decomposes

aten = torch.ops.aten

Numbers = Sequence[int]


def is_volume_convolution(node: Node) -> bool:
    """Tell a convolution of three spatial dims."""
    return node.target is aten.convolution.default and node.args[1].meta["val"].dim() == 5  # type: ignore[union-attr]


@decomposes(aten.convolution.default, applies=is_volume_convolution)
def convolution(
    volume: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    transposed: bool,
    output_padding: Numbers,
    groups: int,
) -> Tensor:
    """Convolve the planes that each entry of the kernel's depth reads, or columns with a kernel of one pixel."""
    stride, padding, dilation, extra = (for_each(one, 3) for one in (stride, padding, dilation, output_padding))
    kernel = weight.shape[2:]
    if kernel[1:] == (1, 1) and stride[1:] == [1, 1] and not any(padding[1:] + extra[1:]):
        columns: Tensor = aten.convolution.default(
            volume.flatten(3), weight.flatten(3), bias, [stride[0], 1], [padding[0], 0], [dilation[0], 1], transposed,
            [extra[0], 0], groups,
        )  # fmt: skip
        return columns.reshape(*columns.shape[:3], *volume.shape[3:])
    around = (stride[1:], padding[1:], dilation[1:], transposed, extra[1:], groups)
    planes = volume.transpose(1, 2)
    if transposed:
        size = (kernel[0] - 1) * dilation[0] + 1 + extra[0] - 2 * padding[0]
        convolved = _transposed(planes, weight, bias, stride[0], padding[0], dilation[0], size, around)
    else:
        if padding[0]:
            planes = _padded(planes, padding[0], padding[0])
        last = dilation[0] * (kernel[0] - 1)
        taps = [planes[:, at : at - last or None : stride[0]] for at in range(0, last + 1, dilation[0])]
        convolved = _convolve(taps, weight, bias, around)
    return convolved.transpose(1, 2)


def _padded(planes: Tensor, before: int, after: int) -> Tensor:
    return torch.constant_pad_nd(planes, [0, 0, 0, 0, 0, 0, before, after])


def _convolve(taps: list[Tensor], weight: Tensor, bias: Tensor | None, around: tuple[Any, ...]) -> Tensor:
    """Sum the convolutions of taps [N, L, C, H, W], one for each entry of the kernel's depth: [N, L, O, H', W'].

    Without groups they are one convolution, whose input channels are those of all taps.
    """
    transposed, groups = around[3], around[5]
    images = [tap.flatten(0, 1) for tap in taps]
    kernels = list(weight.unbind(2))
    if groups == 1 and len(taps) > 1:
        images = [torch.cat(images, 1)]
        kernels = [torch.cat(kernels, 0 if transposed else 1)]
    total: Any = None
    for image, kernel in zip(images, kernels, strict=True):
        part = aten.convolution.default(image, kernel, bias if total is None else None, *around)
        total = part if total is None else total + part
    return total.unflatten(0, taps[0].shape[:2])  # type: ignore[no-any-return]


def _transposed(
    planes: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int,
    padding: int,
    dilation: int,
    size: int,
    around: tuple[Any, ...],
) -> Tensor:
    """Compute every `stride`-th plane of the result at once, then weave these phases together.

    Output q * stride + r sums input q + s times kernel entry k, for all k with r + padding - k * dilation = s * stride.
    `size` is the depth of the result for an input of one plane.
    """
    depth = planes.shape[1]
    more = -(-size // stride) - 1  # planes of a phase beyond those of the input
    readers: list[list[tuple[int, int]]] = []
    for phase in range(stride):
        places = [(entry, phase + padding - entry * dilation) for entry in range(weight.shape[2])]
        readers.append([(entry, place // stride) for entry, place in places if place % stride == 0])
    shifts = [shift for phase in readers for _, shift in phase]
    before, after = max(0, -min(shifts)), max(0, max(shifts) + more)
    planes = _padded(planes, before, after)
    surplus = before + after - more
    phases: list[Tensor | None] = []
    for reader in readers:
        starts = [before + shift for _, shift in reader]
        taps = [planes[:, start : start - surplus or None] for start in starts]
        kernels = [weight[:, :, entry] for entry, _ in reader]
        phases.append(_convolve(taps, torch.stack(kernels, 2), bias, around) if reader else None)
    given = next(phase for phase in phases if phase is not None)
    nothing = torch.zeros_like(given) if bias is None else torch.zeros_like(given) + bias.view(-1, 1, 1)
    woven = torch.stack([nothing if phase is None else phase for phase in phases], 2) if stride > 1 else given
    return woven.flatten(1, 2)[:, : (depth - 1) * stride + size] if stride > 1 else woven


def _planes(volume: Tensor) -> Tensor:
    """The planes of a volume [..., D, H, W], an image of one channel each."""
    return volume.flatten(0, -3).unsqueeze(1)


def _columns(planes: Tensor, volume: Tensor) -> Tensor:
    """Arrange results that were computed from the planes of `volume` as images [D, H * W]."""
    return planes.reshape(-1, 1, volume.shape[-3], planes.shape[2] * planes.shape[3])


@decomposes(aten.max_pool3d_with_indices.default)
def max_pool_with_indices(
    volume: Tensor,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Numbers = (0,),
    dilation: Numbers = (1,),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """The maximum of maxima, of each plane's windows and then along the depth, and its place in the volume.

    Of equal numbers the first counts in both steps, as in the order of the whole window; of NaNs the last.
    """
    kernel, steps, pads, gaps = (for_each(one, 3) for one in (kernel_size, stride or kernel_size, padding, dilation))
    maxima, places = aten.max_pool2d_with_indices.default(
        _planes(volume), kernel[1:], steps[1:], pads[1:], gaps[1:], ceil_mode
    )
    along = ([given[0], plain] for given, plain in ((kernel, 1), (steps, 1), (pads, 0), (gaps, 1)))
    result, rows = aten.max_pool2d_with_indices.default(_columns(maxima, volume), *along, ceil_mode)
    shape = (*volume.shape[:-3], result.shape[2], *maxima.shape[2:])
    flat, pixels = rows.flatten(1), maxima.shape[2] * maxima.shape[3]
    depths = torch.div(flat, pixels, rounding_mode="floor")
    found = _columns(places, volume).flatten(1).gather(1, flat) + depths * (volume.shape[-2] * volume.shape[-1])
    return result.reshape(shape), found.reshape(shape)


@decomposes(aten.max_pool3d.default)
def max_pool(volume: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The maximum of maxima."""
    maxima, _ = max_pool_with_indices(volume, *args, **kwargs)
    return maxima


@decomposes(aten.avg_pool3d.default)
def average_pool(
    volume: Tensor,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Numbers = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The average of averages: what a window counts is the product of what it counts along each dim."""
    kernel, steps, pads = (for_each(one, 3) for one in (kernel_size, stride or kernel_size, padding))
    divisors = (None, None) if divisor_override is None else (kernel[1] * kernel[2], kernel[0])
    planes = aten.avg_pool2d.default(
        _planes(volume), kernel[1:], steps[1:], pads[1:], ceil_mode, count_include_pad, divisors[0]
    )
    along = ([given[0], plain] for given, plain in ((kernel, 1), (steps, 1), (pads, 0)))
    columns = aten.avg_pool2d.default(_columns(planes, volume), *along, ceil_mode, count_include_pad, divisors[1])
    result: Tensor = columns.reshape(*volume.shape[:-3], columns.shape[2], *planes.shape[2:])
    return result if divisor_override is None else result * (kernel[0] * kernel[1] * kernel[2] / divisor_override)


@decomposes(aten.adaptive_avg_pool3d.default, aten._adaptive_avg_pool3d.default)
def adaptive_average_pool(volume: Tensor, output_size: Numbers) -> Tensor:
    """The average of averages, as windows are products of ranges."""
    depth, height, width = output_size
    if (depth, height, width) == (1, 1, 1):
        return volume.mean((-3, -2, -1), keepdim=True)
    planes = aten._adaptive_avg_pool2d.default(_planes(volume), [height, width])
    columns: Tensor = aten._adaptive_avg_pool2d.default(_columns(planes, volume), [depth, height * width])
    return columns.reshape(*volume.shape[:-3], depth, height, width)
