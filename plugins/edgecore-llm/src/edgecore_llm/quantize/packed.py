"""Pack quantized matrices into the layout that the kernels read, see `native/src/packed.h`.

A matrix [outputs, inputs] of 4 or 8 bits becomes a uint8 tensor [tiles, groups, bytes]: blocks of 16 outputs x 32
inputs, each with its integers and then a float16 scale per output. The last dimension tells the number of bits: it is
288 for 4 bits, 544 for 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

BLOCK_OUTPUTS = 16
GROUP = 32
SCALE_BYTES = 2 * BLOCK_OUTPUTS
BLOCK_BYTES = {4: 256 + SCALE_BYTES, 8: 512 + SCALE_BYTES}
OFFSETS = {4: 8, 8: 128}
"""Number added to an integer before it is stored as unsigned."""


@dataclass(frozen=True)
class QuantizedMatrix:
    """A matrix of integers with scales: weight [o, i] = values [o, i] * scales [o, i // 32].

    Attributes:
        values: int8 [outputs, inputs]; 4 bits: in [-8, 7]. 8 bits: in [-127, 127], or -128 if a checkpoint has it.
        scales: float16 [outputs, ceil(inputs / 32)].
        bits: 4 or 8.
    """

    values: Tensor
    scales: Tensor
    bits: int

    def dequantize(self) -> Tensor:
        """Return float32 [outputs, inputs]."""
        scales = self.scales.float().repeat_interleave(GROUP, 1)[:, : self.values.shape[1]]
        return self.values.float() * scales

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> QuantizedMatrix:
        """Return some of the rows."""
        return QuantizedMatrix(self.values[rows], self.scales[rows], self.bits)


def join(parts: Sequence[QuantizedMatrix]) -> QuantizedMatrix:
    """Concatenate the rows of matrices that have equal numbers of bits."""
    values, scales = torch.cat([part.values for part in parts]), torch.cat([part.scales for part in parts])
    return QuantizedMatrix(values, scales, parts[0].bits)


def packed_bits(packed: Tensor) -> int:
    """Return the number of bits of a packed matrix: 4 or 8.

    Raises:
        ValueError: The tensor is not a packed matrix.
    """
    for bits, size in BLOCK_BYTES.items():
        if packed.dtype == torch.uint8 and packed.dim() == 3 and packed.shape[2] == size:
            return bits
    raise ValueError(
        f"a packed matrix is a uint8 tensor [tiles, groups, 288 or 544], not {packed.dtype} {list(packed.shape)}"
    )


def packed_shape(outputs: int, inputs: int, bits: int) -> tuple[int, int, int]:
    """Return the shape [tiles, groups, bytes of a block] of a packed matrix [outputs, inputs]."""
    return -(-outputs // BLOCK_OUTPUTS), -(-inputs // GROUP), BLOCK_BYTES[bits]


def pack(matrix: QuantizedMatrix) -> Tensor:
    """Pack a matrix. Outputs that pad the last tile have scale 0, inputs that pad the last group have weight 0."""
    outputs, inputs = matrix.values.shape
    tiles, groups, _ = packed_shape(outputs, inputs, matrix.bits)
    padding = (0, groups * GROUP - inputs, 0, tiles * BLOCK_OUTPUTS - outputs)
    stored = (F.pad(matrix.values, padding).to(torch.int16) + OFFSETS[matrix.bits]).to(torch.uint8)
    blocks = stored.reshape(tiles, BLOCK_OUTPUTS, groups, GROUP // 4, 4).permute(0, 2, 3, 1, 4)  # groups of 4 inputs
    if matrix.bits == 4:
        blocks = blocks[:, :, :4] | blocks[:, :, 4:] << 4
    scales = F.pad(matrix.scales, (0, 0, 0, padding[3])).reshape(tiles, BLOCK_OUTPUTS, groups).permute(0, 2, 1)
    return torch.cat([blocks.reshape(tiles, groups, -1), scales.contiguous().view(torch.uint8)], 2)


def unpack(packed: Tensor, outputs: int, inputs: int) -> QuantizedMatrix:
    """Return the matrix [outputs, inputs] that `packed` stores.

    Raises:
        ValueError: The tensor is not a packed matrix of that size.
    """
    bits = packed_bits(packed)
    if tuple(packed.shape) != packed_shape(outputs, inputs, bits):
        raise ValueError(f"a packed matrix {list(packed.shape)} does not have {outputs} outputs and {inputs} inputs")
    tiles, groups, _ = packed.shape
    lines = packed[:, :, :-SCALE_BYTES].reshape(tiles, groups, -1, BLOCK_OUTPUTS, 4)
    if bits == 4:
        lines = torch.cat([lines & 15, lines >> 4], 2)
    stored = lines.permute(0, 3, 1, 2, 4).reshape(tiles * BLOCK_OUTPUTS, groups * GROUP)
    values = (stored.to(torch.int16) - OFFSETS[bits]).to(torch.int8)[:outputs, :inputs]
    scales = packed[:, :, -SCALE_BYTES:].contiguous().view(torch.float16).permute(0, 2, 1)
    return QuantizedMatrix(values, scales.reshape(-1, groups)[:outputs], bits)


def round_rows(x: Tensor, size: int = GROUP) -> tuple[Tensor, Tensor]:
    """Round rows to 8 bits as the kernels do: return int8 [rows, groups, size] and float32 scales [rows, groups].

    Values are rounded to nearest, ties to even. A group that contains NaN or infinity has the scale NaN; a group
    becomes zeros if no magnitude in it exceeds 2**-119.
    """
    groups = F.pad(x.float(), (0, -x.shape[-1] % size)).reshape(*x.shape[:-1], -1, size)
    largest = groups.abs().amax(-1)
    used = largest.isfinite() & (largest > 2.0**-119)
    values = (groups * (127.0 / largest.where(used, torch.ones(())))[..., None]).round()
    scales = (largest / 127.0).where(used, torch.zeros(())).where(largest.isfinite(), torch.full((), torch.nan))
    return values.where(used[..., None], torch.zeros(())).to(torch.int8), scales


def linear(x: Tensor, packed: Tensor, outputs: int) -> Tensor:
    """Multiply rows x [..., inputs] by a packed matrix as the kernels do, except for the rounding of float sums."""
    matrix = unpack(packed, outputs, x.shape[-1])
    values, scales = round_rows(x)
    rounded = (values.float() * scales[..., None]).flatten(-2)[..., : x.shape[-1]]
    return rounded @ matrix.dequantize().T
