"""Operators on weights of 2, 4 and 8 bits, which PyTorch lacks and for which ExecuTorch defines kernels.

The emitter maps `edgecore::embedding_packed` to the kernels `quantized_decomposed::embedding_{2bit,4bit,byte}`, and
`edgecore::mixed_linear` to the kernel `quantized_decomposed::mixed_linear`. Weights are packed as these kernels expect.
"""

from __future__ import annotations

from typing import Any

import torch

# Keep this library object: torch unregisters the operators when the object is destroyed.
_library: Any = torch.library.Library("edgecore", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define(
    "embedding_packed(Tensor weight, Tensor scales, Tensor? zero_points, int bits, Tensor indices) -> Tensor"
)
_library.define("mixed_linear(Tensor input, Tensor weight, Tensor scales) -> Tensor")


@torch.library.impl(_library, "embedding_packed", "CompositeExplicitAutograd")
def _embedding_packed(
    weight: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor | None, bits: int, indices: torch.Tensor
) -> torch.Tensor:
    """Return the rows of `weight` at `indices`, dequantized: (entry - zero point) * scale.

    `scales` and `zero_points` have the shape [rows], or [rows, groups] if each row has groups of equal size.
    """
    entries = unpack(weight[indices], bits).to(scales.dtype)
    groups = scales.shape[1] if scales.dim() == 2 else 1
    grouped = entries.reshape(*entries.shape[:-1], groups, -1)
    if zero_points is not None:
        grouped = grouped - zero_points.reshape(-1, groups)[indices].unsqueeze(-1)
    return (grouped * scales.reshape(-1, groups)[indices].unsqueeze(-1)).reshape(entries.shape)


@torch.library.impl(_library, "mixed_linear", "CompositeExplicitAutograd")
def _mixed_linear(input: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Multiply `input` [rows, inputs] by the transpose of the int8 `weight` [outputs, inputs] times its scales.

    `scales` has the shape [outputs], or [outputs, groups] if each row of `weight` has groups of equal size.
    """
    groups = scales.shape[1] if scales.dim() == 2 else 1
    grouped = weight.to(scales.dtype).reshape(weight.shape[0], groups, -1)
    return input @ (grouped * scales.reshape(-1, groups, 1)).reshape(weight.shape).T


def pack(entries: torch.Tensor, bits: int) -> torch.Tensor:
    """Pack a quantized matrix into bytes.

    An entry of 2 or 4 bits is stored as an unsigned number: entry + 2^(bits - 1). With 4 bits, the first of two entries
    is in the upper half of a byte; with 2 bits, the first of four entries is in the lowest bits.

    Args:
        entries: int8 [rows, width], signed numbers of `bits` bits. `width * bits` is a multiple of 8.
        bits: 2, 4 or 8.

    Returns:
        uint8 [rows, width * bits / 8]; for 8 bits, `entries` unchanged.
    """
    if bits == 8:
        return entries
    count = 8 // bits
    positions = range(count - 1, -1, -1) if bits == 4 else range(count)
    shifted = (entries + (1 << (bits - 1))).to(torch.uint8)
    packed = torch.zeros(entries.shape[0], entries.shape[1] // count, dtype=torch.uint8)
    for index, position in enumerate(positions):
        packed |= shifted[:, index::count] << (position * bits)
    return packed


def unpack(packed: torch.Tensor, bits: int) -> torch.Tensor:
    """Undo `pack`: return the int8 entries [..., width] of bytes [..., width * bits / 8]."""
    if bits == 8:
        return packed
    count = 8 // bits
    positions = range(count - 1, -1, -1) if bits == 4 else range(count)
    parts = [(packed >> (at * bits) & ((1 << bits) - 1)).to(torch.int8) - (1 << (bits - 1)) for at in positions]
    return torch.stack(parts, -1).reshape(*packed.shape[:-1], packed.shape[-1] * count)
