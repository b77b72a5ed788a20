"""Operators over weights of 2, 4 and 8 bits, which `quantized_decomposed` has kernels for but PyTorch has no operators.

`edgecore::embedding_packed` becomes `quantized_decomposed::embedding_{2bit,4bit,byte}`, `edgecore::mixed_linear` the
operator of that name; their formats are ExecuTorch's.
"""

from __future__ import annotations

from typing import Any

import torch

_library: Any = torch.library.Library("edgecore", "FRAGMENT")  # type: ignore[no-untyped-call]  # operators live as long as it does
_library.define(
    "embedding_packed(Tensor weight, Tensor scales, Tensor? zero_points, int bits, Tensor indices) -> Tensor"
)
_library.define("mixed_linear(Tensor input, Tensor weight, Tensor scales) -> Tensor")


@torch.library.impl(_library, "embedding_packed", "CompositeExplicitAutograd")
def _embedding_packed(
    weight: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor | None, bits: int, indices: torch.Tensor
) -> torch.Tensor:
    """Rows of `weight`, (entry - zero point) * scale: a scale for each row, [rows], or for each group, [rows, groups]."""
    entries = unpack(weight[indices], bits).to(scales.dtype)
    groups = scales.shape[1] if scales.dim() == 2 else 1
    grouped = entries.reshape(*entries.shape[:-1], groups, -1)
    if zero_points is not None:
        grouped = grouped - zero_points.reshape(-1, groups)[indices].unsqueeze(-1)
    return (grouped * scales.reshape(-1, groups)[indices].unsqueeze(-1)).reshape(entries.shape)


@torch.library.impl(_library, "mixed_linear", "CompositeExplicitAutograd")
def _mixed_linear(input: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """`input` [rows, inputs] times the transpose of the int8 `weight` [outputs, inputs], scaled as an embedding is."""
    groups = scales.shape[1] if scales.dim() == 2 else 1
    grouped = weight.to(scales.dtype).reshape(weight.shape[0], groups, -1)
    return input @ (grouped * scales.reshape(-1, groups, 1)).reshape(weight.shape).T


def pack(entries: torch.Tensor, bits: int) -> torch.Tensor:
    """int8 [rows, width] with entries of `bits` bits -> the bytes of a row. `width` must fill them.

    Four bits: the high half first; two bits: the lowest first; both plus half of their range. Eight bits: as they are.
    """
    if bits == 8:
        return entries
    count = 8 // bits
    places = range(count - 1, -1, -1) if bits == 4 else range(count)
    shifted = (entries + (1 << (bits - 1))).to(torch.uint8)
    packed = torch.zeros(entries.shape[0], entries.shape[1] // count, dtype=torch.uint8)
    for index, place in enumerate(places):
        packed |= shifted[:, index::count] << (place * bits)
    return packed


def unpack(packed: torch.Tensor, bits: int) -> torch.Tensor:
    """The entries again, in the last dimension."""
    if bits == 8:
        return packed
    count = 8 // bits
    places = range(count - 1, -1, -1) if bits == 4 else range(count)
    parts = [(packed >> (place * bits) & ((1 << bits) - 1)).to(torch.int8) - (1 << (bits - 1)) for place in places]
    return torch.stack(parts, -1).reshape(*packed.shape[:-1], packed.shape[-1] * count)
