"""Decompositions of 3-d convolution and pooling into 2-d operators, for which every runtime has kernels.

Each function has the arguments of its ATen operator, and `decompose` traces the function. In a volume [N, C, D, H, W],
the sizes N, D, H and W may be symbolic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from edgecore.ir.graph import for_each
from edgecore.passes.decompose.decompositions.pooling import adaptive_max_pool_2d, average_windows, has_static_space
from edgecore.passes.decompose.decompositions.various import decomposes, is_empty

aten = torch.ops.aten

Numbers = Sequence[int]


def is_volume_convolution(node: Node) -> bool:
    """Return True for a convolution with three spatial dims."""
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
    """Decompose a 3-d convolution into 2-d convolutions.

    A kernel of size [depth, 1, 1] convolves only along D: this is a 2-d convolution of images [N, C, D, H * W]. Other
    kernels are split along their depth into 2-d kernels. The planes [N, C, H, W] that meet entry d of the depth are
    convolved with 2-d kernel d, and the results of all entries are summed.
    """
    stride, padding, dilation = (for_each(value, 3) for value in (stride, padding, dilation))
    output_padding = for_each(output_padding, 3)
    kernel = weight.shape[2:]
    if kernel[1:] == (1, 1) and stride[1:] == [1, 1] and not any(padding[1:] + output_padding[1:]):
        depth_options = ([stride[0], 1], [padding[0], 0], [dilation[0], 1], transposed, [output_padding[0], 0], groups)
        columns: Tensor = aten.convolution.default(volume.flatten(3), weight.flatten(3), bias, *depth_options)
        return columns.reshape(*columns.shape[:3], *volume.shape[3:])
    options = (stride[1:], padding[1:], dilation[1:], transposed, output_padding[1:], groups)
    planes = volume.transpose(1, 2)
    if transposed:
        size = (kernel[0] - 1) * dilation[0] + 1 + output_padding[0] - 2 * padding[0]
        convolved = _transposed(planes, weight, bias, stride[0], padding[0], dilation[0], size, options)
    else:
        if padding[0]:
            planes = _pad_depth(planes, padding[0], padding[0])
        last = dilation[0] * (kernel[0] - 1)
        taps = [planes[:, at : at - last or None : stride[0]] for at in range(0, last + 1, dilation[0])]
        convolved = _convolve(taps, weight, bias, options)
    return convolved.transpose(1, 2)


def _pad_depth(planes: Tensor, before: int, after: int) -> Tensor:
    return torch.constant_pad_nd(planes, [0, 0, 0, 0, 0, 0, before, after])


def _convolve(taps: list[Tensor], weight: Tensor, bias: Tensor | None, options: tuple[Any, ...]) -> Tensor:
    """Sum 2-d convolutions, one for each entry of the kernel's depth.

    Without groups they become one convolution: the input channels of all entries are concatenated.

    Args:
        taps: For each entry of the kernel's depth the planes that it reads, [N, planes, C, H, W].
        weight: The 3-d kernel, with dim 2 as depth.
        bias: The bias, which is added once.
        options: The arguments of the 2-d convolutions after the bias.

    Returns:
        [N, planes, output channels, H', W'].
    """
    transposed, groups = options[3], options[5]
    images = [tap.flatten(0, 1) for tap in taps]
    kernels = list(weight.unbind(2))
    if groups == 1 and len(taps) > 1:
        images = [torch.cat(images, 1)]
        kernels = [torch.cat(kernels, 0 if transposed else 1)]
    total: Any = None
    for image, kernel in zip(images, kernels, strict=True):
        term = aten.convolution.default(image, kernel, bias if total is None else None, *options)
        total = term if total is None else total + term
    return total.unflatten(0, taps[0].shape[:2])  # type: ignore[no-any-return]


def _transposed(
    planes: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int,
    padding: int,
    dilation: int,
    size: int,
    options: tuple[Any, ...],
) -> Tensor:
    """Compute a transposed convolution along the depth as one ordinary convolution for each phase of the result.

    Input plane i contributes kernel entry k to output plane o = i * stride - padding + k * dilation. For the planes of
    phase r, o = q * stride + r, this means i = q + s with s * stride = r + padding - k * dilation. So all planes of a
    phase use the same entries k, namely those for which s is an integer, and each entry reads the input shifted by s
    planes. The results of the phases are interleaved.

    Args:
        planes: [N, D, C, H, W].
        weight: The 3-d kernel.
        bias: The bias.
        stride: The stride along the depth.
        padding: The padding along the depth.
        dilation: The dilation along the depth.
        size: The depth of the result for an input of one plane.
        options: The arguments of the 2-d convolutions after the bias.
    """
    depth = planes.shape[1]
    # number of planes by which a phase (every `stride`-th plane) of the result exceeds the input
    extra = -(-size // stride) - 1
    entries: list[list[tuple[int, int]]] = []  # for each phase of the result: (kernel entry, shift in planes)
    for phase in range(stride):
        offsets = [(entry, phase + padding - entry * dilation) for entry in range(weight.shape[2])]
        entries.append([(entry, offset // stride) for entry, offset in offsets if offset % stride == 0])
    shifts = [shift for phase_entries in entries for _, shift in phase_entries]
    before, after = max(0, -min(shifts)), max(0, max(shifts) + extra)
    planes = _pad_depth(planes, before, after)
    surplus = before + after - extra  # number of planes by which the padded input exceeds a phase
    phases: list[Tensor | None] = []
    for phase_entries in entries:
        starts = [before + shift for _, shift in phase_entries]
        taps = [planes[:, start : start - surplus or None] for start in starts]
        kernels = [weight[:, :, entry] for entry, _ in phase_entries]
        phases.append(_convolve(taps, torch.stack(kernels, 2), bias, options) if phase_entries else None)
    computed = next(result for result in phases if result is not None)
    # If the stride exceeds the kernel, no kernel entry contributes to some phases of the result (a phase is every
    # `stride`-th plane). Such a phase contains only the bias.
    empty = torch.zeros_like(computed) if bias is None else torch.zeros_like(computed) + bias.view(-1, 1, 1)
    if stride == 1:
        return computed
    interleaved = torch.stack([empty if result is None else result for result in phases], 2).flatten(1, 2)
    return interleaved[:, : (depth - 1) * stride + size]


def _planes(volume: Tensor) -> Tensor:
    """Return the planes of a volume [..., D, H, W] as images with one channel."""
    return volume.flatten(0, -3).unsqueeze(1)


def _columns(planes: Tensor, volume: Tensor) -> Tensor:
    """Reshape pooled planes of `volume` from [N * C * D, 1, H, W] to [N * C, 1, D, H * W], to pool along the depth.

    In these images the depth is a spatial dim, so that 2-d pooling with a window of [depth, 1] applies. H and W are the
    sizes after pooling the planes.
    """
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
    """Pool each plane, then pool the maxima along the depth; compute the index of each maximum in the volume.

    The pooling kernel returns the index of the first of equal maxima, and of the last NaN. Pooling in two steps then
    gives the same index as a single step over the window in row-major order.
    """
    kernel, steps, pads = (for_each(value, 3) for value in (kernel_size, stride or kernel_size, padding))
    gaps = for_each(dilation, 3)
    maxima, plane_indices = aten.max_pool2d_with_indices.default(
        _planes(volume), kernel[1:], steps[1:], pads[1:], gaps[1:], ceil_mode
    )
    along_depth = ([values[0], neutral] for values, neutral in ((kernel, 1), (steps, 1), (pads, 0), (gaps, 1)))
    result, indices = aten.max_pool2d_with_indices.default(_columns(maxima, volume), *along_depth, ceil_mode)
    shape = (*volume.shape[:-3], result.shape[2], *maxima.shape[2:])
    return result.reshape(shape), _indices_in_volume(volume, plane_indices, indices).reshape(shape)


def _indices_in_volume(volume: Tensor, plane_indices: Tensor, indices: Tensor) -> Tensor:
    """For each maximum, return its index in the volume.

    Args:
        volume: The volume.
        plane_indices: For each maximum of a plane, its index in the plane: row * W + column.
        indices: For each result, its index in the maxima of the planes: depth * pixels + pixel, where `pixels` is the
            number of maxima in a plane.
    """
    flat, pixels = indices.flatten(1), plane_indices.shape[2] * plane_indices.shape[3]
    depths = torch.div(flat, pixels, rounding_mode="floor")
    in_plane = _columns(plane_indices, volume).flatten(1).gather(1, flat)
    return in_plane + depths * (volume.shape[-2] * volume.shape[-1])


@decomposes(aten.adaptive_max_pool3d.default, applies=has_static_space)
def adaptive_max_pool(volume: Tensor, output_size: Numbers) -> tuple[Tensor, Tensor]:
    """Pool each plane to a size, then the maxima along the depth, as `max_pool_with_indices` does."""
    depth, height, width = for_each(output_size, 3)
    shape = (*volume.shape[:-3], depth, height, width)
    if is_empty(*shape, *volume.shape):
        return volume.new_zeros(shape), volume.new_zeros(shape, dtype=torch.int64)
    maxima, plane_indices = adaptive_max_pool_2d(_planes(volume), [height, width])
    result, indices = adaptive_max_pool_2d(_columns(maxima, volume), [depth, height * width])
    return result.reshape(shape), _indices_in_volume(volume, plane_indices, indices).reshape(shape)


@decomposes(aten.max_pool3d.default)
def max_pool(volume: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Pool as `max_pool_with_indices` does, without the indices."""
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
    """Average each plane, then average the results along the depth.

    This equals one average over the window, because the number of elements that a window counts is the product of the
    counts along each dim.
    """
    kernel, steps, pads = (for_each(value, 3) for value in (kernel_size, stride or kernel_size, padding))
    is_integer = not volume.is_floating_point()
    divisors: tuple[int | None, int | None] = (None, None)
    if is_integer:  # sum in both steps and divide once, because two averages would round twice
        divisors = (1, 1)
    elif divisor_override is not None:
        divisors = (kernel[1] * kernel[2], kernel[0])
    planes = aten.avg_pool2d.default(
        _planes(volume), kernel[1:], steps[1:], pads[1:], ceil_mode, count_include_pad, divisors[0]
    )
    along_depth = ([values[0], neutral] for values, neutral in ((kernel, 1), (steps, 1), (pads, 0)))
    columns = aten.avg_pool2d.default(_columns(planes, volume), *along_depth, ceil_mode, count_include_pad, divisors[1])
    result: Tensor = columns.reshape(*volume.shape[:-3], columns.shape[2], *planes.shape[2:])
    if is_integer:
        counts = divisor_override or _counts(volume, result, kernel, steps, pads, count_include_pad)
        return torch.div(result, counts, rounding_mode="trunc")
    return result if divisor_override is None else result * (kernel[0] * kernel[1] * kernel[2] / divisor_override)


def _counts(
    volume: Tensor, result: Tensor, kernel: Numbers, steps: Numbers, pads: Numbers, include_pad: bool
) -> Tensor:
    """Return the number of elements that each window of an average counts, [D, H, W]."""
    depth, height, width = (
        average_windows(*options, include_pad)[2]
        for options in zip(volume.shape[-3:], result.shape[-3:], kernel, steps, pads, strict=True)
    )
    return depth.view(-1, 1, 1) * height.view(-1, 1) * width


@decomposes(aten.adaptive_avg_pool3d.default, aten._adaptive_avg_pool3d.default)
def adaptive_average_pool(volume: Tensor, output_size: Numbers) -> Tensor:
    """Average each plane, then average the results along the depth.

    This equals one average over the window, because each plane contributes the same number of elements.
    """
    depth, height, width = output_size
    if 0 in (depth, height, width):
        return volume.new_zeros((*volume.shape[:-3], depth, height, width))
    if (depth, height, width) == (1, 1, 1):
        return volume.mean((-3, -2, -1), keepdim=True)
    planes = aten._adaptive_avg_pool2d.default(_planes(volume), [height, width])
    columns: Tensor = aten._adaptive_avg_pool2d.default(_columns(planes, volume), [depth, height * width])
    return columns.reshape(*volume.shape[:-3], depth, height, width)
