"""MIL operators (of Core ML's ML programs) of neural networks: products, convolutions, pooling, norms, resampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from edgecore_coreml_standin.elementwise import softmax
from edgecore_coreml_standin.registry import dims_of, ints, mil, ones_if_absent


@mil()
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    result = x @ weight.T
    return result if bias is None else result + bias


@mil()
def matmul(x: Tensor, y: Tensor, transpose_x: Tensor | bool = False, transpose_y: Tensor | bool = False) -> Tensor:
    return (x.mT if transpose_x else x) @ (y.mT if transpose_y else y)


@mil()
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    weights: Tensor = softmax(scores)
    return weights @ value


def _pads(x: Any, kernel: Any, strides: Any, dilations: Any, pad_type: Any, pad: Any) -> list[tuple[int, int]]:
    """Return the padding (before, after) of each spatial dim of a convolution or a pooling."""
    spatial = x.shape[2:]
    if pad_type == "valid":
        return [(0, 0)] * len(spatial)
    if pad_type == "custom":
        numbers = ints(pad)
        return list(zip(numbers[::2], numbers[1::2], strict=True))
    pairs = []
    for size, k, s, d in zip(spatial, kernel, strides, dilations, strict=True):
        total = max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
        pairs.append((total // 2, total - total // 2) if pad_type == "same" else (total - total // 2, total // 2))
    return pairs


def _padded(x: Any, pairs: Any, value: Any = 0.0) -> Tensor:
    return torch.nn.functional.pad(x, [number for pair in reversed(pairs) for number in pair], value=value)


@mil()
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    strides: Tensor | None = None,
    pad_type: str = "valid",
    pad: Tensor | None = None,
    dilations: Tensor | None = None,
    groups: Tensor | float = 1,
) -> Tensor:
    rank = x.dim() - 2
    steps, spread = ones_if_absent(strides, rank), ones_if_absent(dilations, rank)
    x = _padded(x, _pads(x, weight.shape[2:], steps, spread, pad_type, pad))
    function: Callable[..., Tensor] = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
    return function(x, weight, bias, steps, 0, spread, int(groups))


@mil()
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    pad: Tensor | None = None,
    output_shape: Tensor | None = None,
    pad_type: str = "valid",
    strides: Tensor | None = None,
    dilations: Tensor | None = None,
    groups: Tensor | float = 1,
) -> Tensor:
    rank = x.dim() - 2
    steps, spread = ones_if_absent(strides, rank), ones_if_absent(dilations, rank)
    functions = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)
    full = functions[rank - 1](x, weight, bias, steps, 0, 0, int(groups), spread)
    pairs = [(0, 0)] * rank if pad_type == "valid" or pad is None else _pads(x, None, None, None, "custom", pad)
    crop = [slice(before, full.shape[2 + d] - after) for d, (before, after) in enumerate(pairs)]
    return full[(slice(None), slice(None), *crop)]


def _pool(
    function: Callable[..., Tensor],
    x: Any,
    kernel_sizes: Any,
    strides: Any,
    pad_type: Any,
    pad: Any,
    ceil_mode: Any,
    value: Any,
) -> Tensor:
    kernel = ints(kernel_sizes)
    strides = ones_if_absent(strides, len(kernel))
    pairs = _pads(x, kernel, strides, [1] * len(kernel), pad_type, pad)
    # ceil_mode keeps a window that begins inside the padded image and ends beyond it, so pad the end of the image
    # further.
    if ceil_mode:
        for d, (before, after) in enumerate(pairs):
            size = x.shape[2 + d] + before + after
            pairs[d] = (before, after + -(size - kernel[d]) % strides[d])
    windows = _padded(x, pairs, value)
    for d, (k, s) in enumerate(zip(kernel, strides, strict=True)):
        windows = windows.unfold(2 + d, k, s)
    return function(windows, list(range(-len(kernel), 0)))


@mil()
def max_pool(
    x: Tensor,
    kernel_sizes: Tensor,
    strides: Tensor | None = None,
    pad_type: str = "valid",
    pad: Tensor | None = None,
    ceil_mode: Tensor | bool = False,
) -> Tensor:
    return _pool(torch.amax, x, kernel_sizes, strides, pad_type, pad, ceil_mode, -torch.inf)


@mil()
def avg_pool(
    x: Tensor,
    kernel_sizes: Tensor,
    strides: Tensor | None = None,
    pad_type: str = "valid",
    pad: Tensor | None = None,
    exclude_padding_from_average: Tensor | bool = False,
    ceil_mode: Tensor | bool = False,
) -> Tensor:
    total = _pool(torch.sum, x, kernel_sizes, strides, pad_type, pad, ceil_mode, 0.0)
    ones = torch.ones_like(x)
    if not exclude_padding_from_average:
        if ceil_mode and total.shape != _pool(torch.sum, x, kernel_sizes, strides, pad_type, pad, False, 0.0).shape:
            raise NotImplementedError("average pooling of windows past padding that counts")
        return total / torch.tensor(ints(kernel_sizes)).prod()
    return total / _pool(torch.sum, ones, kernel_sizes, strides, pad_type, pad, ceil_mode, 0.0)


@mil()
def batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: Tensor | float = 1e-5,
) -> Tensor:
    shape = (1, -1, *[1] * (x.dim() - 2))
    result = (x - mean.reshape(shape)) / torch.sqrt(variance.reshape(shape) + epsilon)
    result = result if gamma is None else result * gamma.reshape(shape)
    return result if beta is None else result + beta.reshape(shape)


@mil()
def layer_norm(
    x: Tensor, axes: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: Tensor | float = 1e-5
) -> Tensor:
    dims = dims_of(x, axes)
    mean = x.mean(dims, keepdim=True)
    result = (x - mean) / torch.sqrt(((x - mean) ** 2).mean(dims, keepdim=True) + epsilon)
    result = result if gamma is None else result * gamma
    return result if beta is None else result + beta


@mil()
def instance_norm(
    x: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: Tensor | float = 1e-5
) -> Tensor:
    shape = (1, -1, *[1] * (x.dim() - 2))
    result: Tensor = layer_norm(x, torch.arange(2, x.dim()), epsilon=epsilon)
    result = result if gamma is None else result * gamma.reshape(shape)
    return result if beta is None else result + beta.reshape(shape)


@mil()
def pixel_shuffle(x: Tensor, upscale_factor: Tensor) -> Tensor:
    n, c, h, w = x.shape
    r = int(upscale_factor)
    return x.reshape(n, c // r**2, r, r, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // r**2, h * r, w * r)


@mil()
def upsample_nearest_neighbor(
    x: Tensor, scale_factor_height: Tensor | float = 1, scale_factor_width: Tensor | float = 1
) -> Tensor:
    height, width = float(scale_factor_height), float(scale_factor_width)
    if height != int(height) or width != int(width):
        raise NotImplementedError(
            "upsample_nearest_neighbor by factors that are not whole, which Apple does not define"
        )
    return x.repeat_interleave(int(height), 2).repeat_interleave(int(width), 3)


@mil()
def upsample_bilinear(
    x: Tensor,
    scale_factor_height: Tensor | float = 1,
    scale_factor_width: Tensor | float = 1,
    align_corners: Tensor | bool = True,
    half_pixel_centers: Tensor | None = None,
) -> Tensor:
    if half_pixel_centers is not None and bool(half_pixel_centers) == bool(align_corners):
        raise NotImplementedError("upsample_bilinear with this combination of corners and centers")
    sizes = [int(x.shape[2] * float(scale_factor_height)), int(x.shape[3] * float(scale_factor_width))]
    return torch.nn.functional.interpolate(x, sizes, mode="bilinear", align_corners=bool(align_corners))


@mil()
def lstm(
    x: Tensor,
    initial_h: Tensor,
    initial_c: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    weight_ih_back: Tensor | None = None,
    weight_hh_back: Tensor | None = None,
    bias_back: Tensor | None = None,
    direction: str = "forward",
    output_sequence: Tensor | bool = False,
    recurrent_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    activation: str = "tanh",
) -> list[Tensor]:
    if (recurrent_activation, cell_activation, activation) != ("sigmoid", "tanh", "tanh"):
        raise NotImplementedError("the stand-in has lstm only with the usual activations")
    forward, back = (weight_ih, weight_hh, bias), (weight_ih_back, weight_hh_back, bias_back)
    cells: list[tuple[Tensor | None, Tensor | None, Tensor | None]]
    cells = [forward, back] if direction == "bidirectional" else [forward]
    sides, states = [], []
    for index, (of_input, of_state, added) in enumerate(cells):
        assert of_input is not None and of_state is not None
        is_reverse = direction == "reverse" or index == 1
        h, c = (state.chunk(len(cells), 1)[index] for state in (initial_h, initial_c))
        steps = []
        for step in x.flip(0) if is_reverse else x:
            gates = step @ of_input.T + h @ of_state.T + (0.0 if added is None else added)
            i, f, o, z = gates.chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * z.tanh()
            h = o.sigmoid() * c.tanh()
            steps.append(h)
        outputs = torch.stack(steps)
        sides.append(outputs.flip(0) if is_reverse else outputs)
        states.append((h, c))
    sequence = torch.cat(sides, 2) if output_sequence else torch.cat([h for h, _ in states], 1)[None]
    return [sequence, *(torch.cat(side, 1) for side in zip(*states, strict=True))]
