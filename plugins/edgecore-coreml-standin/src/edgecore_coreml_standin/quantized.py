"""MIL operators of quantization: restore float weights from stored integers, quantize activations to 8 bits."""

from __future__ import annotations

import torch
from torch import Tensor

from edgecore_coreml_standin.elementwise import DTYPES
from edgecore_coreml_standin.registry import ints, mil

_LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}


def _along(values: Tensor, rank: int, axis: Tensor | None) -> Tensor:
    """Reshape a vector to `rank` dims for broadcasting, with its elements along `axis`; return a scalar unchanged."""
    if not values.dim():
        return values
    return values.reshape([-1 if dim == int(axis) % rank else 1 for dim in range(rank)])  # type: ignore[arg-type]


def _repeated(values: Tensor, shape: torch.Size) -> Tensor:
    """Repeat each block's value for all elements of the block. Sizes in `shape` are multiples of sizes of `values`."""
    for dim, size in enumerate(shape):
        values = values.repeat_interleave(size // values.shape[dim], dim)
    return values


@mil()
def quantize(
    input: Tensor, scale: Tensor, output_dtype: str, zero_point: Tensor | None = None, axis: Tensor | None = None
) -> Tensor:
    numbers = torch.round(input / _along(scale, input.dim(), axis))
    if zero_point is not None:
        numbers = numbers + _along(zero_point, input.dim(), axis).to(numbers.dtype)
    return numbers.clamp(*_LIMITS[output_dtype]).to(DTYPES[output_dtype])


@mil()
def dequantize(input: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    numbers = input.to(scale.dtype)
    if zero_point is not None:
        numbers = numbers - _along(zero_point, input.dim(), axis).to(scale.dtype)
    return numbers * _along(scale, input.dim(), axis)


@mil()
def constexpr_affine_dequantize(quantized_data: Tensor, zero_point: Tensor, scale: Tensor, axis: Tensor) -> Tensor:
    return dequantize(quantized_data, scale, zero_point, axis)  # type: ignore[no-any-return]


@mil()
def constexpr_blockwise_shift_scale(data: Tensor, scale: Tensor, offset: Tensor | None = None) -> Tensor:
    numbers = data.to(scale.dtype)
    if offset is not None:
        numbers = numbers - _repeated(offset, data.shape).to(scale.dtype)
    return numbers * _repeated(scale, data.shape)


@mil()
def constexpr_lut_to_dense(
    indices: Tensor, lut: Tensor, shape: Tensor | None = None, vector_axis: Tensor | None = None
) -> Tensor:
    # On iOS 16, `constexpr_lut_to_dense` has one table, and its indices are packed into bytes from the lowest bit on.
    if shape is not None:
        return lut[_unpacked(indices, lut.shape[0].bit_length() - 1, shape)]
    groups = [torch.arange(size) // (size // count) for size, count in zip(indices.shape, lut.shape, strict=False)]
    vectors = lut[(*torch.meshgrid(*groups, indexing="ij"), indices.long())]
    if lut.shape[-1] == 1:
        return vectors.squeeze(-1)
    dim = int(vector_axis) % indices.dim()  # type: ignore[arg-type]
    return vectors.movedim(-1, dim + 1).flatten(dim, dim + 1)


def _unpacked(packed: Tensor, bits: int, shape: Tensor) -> Tensor:
    """Unpack indices of `bits` bits each, which are packed into bytes, to an integer tensor of `shape`."""
    sizes = ints(shape)
    every = (packed.int()[:, None] >> torch.arange(8)) & 1
    count = int(torch.tensor(sizes).prod())
    digits = every.flatten()[: count * bits].reshape(count, bits)
    return (digits << torch.arange(bits)).sum(1).reshape(sizes)
