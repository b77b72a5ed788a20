"""The block types of GGUF, and the numbers that blocks stand for, in float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class BlockType:
    """A type: its name, how many values a block has, its bytes, and the function from [blocks, nbytes] to values."""

    name: str
    size: int
    nbytes: int
    decode: Callable[[Bytes], Floats]


def decode_rows(block: BlockType, rows: Bytes) -> Floats:
    """Return the values of rows [n, bytes of a row], as [n, values of a row]."""
    blocks = np.ascontiguousarray(rows).reshape(-1, block.nbytes)
    with np.errstate(invalid="ignore", over="ignore"):  # scales of a damaged file
        return block.decode(blocks).reshape(len(rows), -1)


def _half(blocks: Bytes) -> Floats:
    """Return float16 numbers, two bytes each."""
    return np.ascontiguousarray(blocks).view("<f2").astype(np.float32)


def _nibbles(packed: Bytes) -> Bytes:
    """Return the low halves of all bytes of a row, then the high ones."""
    return np.concatenate([packed & 15, packed >> 4], -1)


def _f32(blocks: Bytes) -> Floats:
    return blocks.view("<f4").astype(np.float32)


def _bf16(blocks: Bytes) -> Floats:
    values: Floats = (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)
    return values


def _q4_0(blocks: Bytes) -> Floats:
    values: Floats = _nibbles(blocks[:, 2:]).astype(np.float32)
    return _half(blocks[:, :2]) * (values - 8)


def _q4_1(blocks: Bytes) -> Floats:
    values: Floats = _nibbles(blocks[:, 4:]).astype(np.float32)
    return _half(blocks[:, :2]) * values + _half(blocks[:, 2:4])


def _q5_0(blocks: Bytes) -> Floats:
    values: Floats = (_nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])).astype(np.float32)
    return _half(blocks[:, :2]) * (values - 16)


def _q5_1(blocks: Bytes) -> Floats:
    values: Floats = (_nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])).astype(np.float32)
    return _half(blocks[:, :2]) * values + _half(blocks[:, 2:4])


def _fifth_bits(packed: Bytes) -> Bytes:
    """Return the highest bits of 32 values, at their place; the first value has the lowest bit of four bytes."""
    return np.unpackbits(packed, axis=-1, bitorder="little") << np.uint8(4)


def _q8_0(blocks: Bytes) -> Floats:
    values: Floats = blocks[:, 2:].view(np.int8).astype(np.float32)
    return _half(blocks[:, :2]) * values


def _q4_k(blocks: Bytes) -> Floats:
    return _two_levels(blocks, _groups_of_nibbles(blocks[:, 16:]))


def _q5_k(blocks: Bytes) -> Floats:
    # Bit i of byte j is the highest bit of entry j of group i.
    bits = np.unpackbits(blocks[:, 16:48, None], axis=-1, bitorder="little").swapaxes(1, 2)
    return _two_levels(blocks, _groups_of_nibbles(blocks[:, 48:]) | bits << np.uint8(4))


def _groups_of_nibbles(packed: Bytes) -> Bytes:
    """Return eight groups of 32 values: 32 bytes hold two of them, the low halves and the high halves."""
    return _nibbles(packed.reshape(-1, 4, 32)).reshape(-1, 8, 32)


def _two_levels(blocks: Bytes, integers: Bytes) -> Floats:
    """Return the values of integers [blocks, 8, 32], whose scales and minima are at the front of a block."""
    scale, minimum = _half(blocks[:, 0:2]), _half(blocks[:, 2:4])
    # Eight scales and eight minima of 6 bits: four of each as a whole, four in two parts.
    first, second, third = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = np.concatenate([first & 63, (third & 15) | ((first >> 6) << 4)], 1)
    minima = np.concatenate([second & 63, (third >> 4) | ((second >> 6) << 4)], 1)
    values: Floats = integers.astype(np.float32)
    found: Floats = (scale * scales)[..., None] * values - (minimum * minima)[..., None]
    return found.reshape(len(blocks), 256)


def _q6_k(blocks: Bytes) -> Floats:
    low, high = blocks[:, :128].reshape(-1, 2, 64), blocks[:, 128:192].reshape(-1, 2, 32)
    scales, scale = blocks[:, 192:208].view(np.int8), _half(blocks[:, 208:210])
    # Each half of the block: four runs of 32 values, with the low bits of 64 bytes and two high bits of 32 bytes.
    bits = np.concatenate([(high >> shift) & 3 for shift in (0, 2, 4, 6)], -1)
    values = (_nibbles(low) | (bits << 4)).astype(np.int8) - 32
    return ((scale * scales)[..., None] * values.reshape(-1, 16, 16)).reshape(len(blocks), 256)


BLOCKS = {
    0: BlockType("F32", 1, 4, _f32),
    1: BlockType("F16", 1, 2, _half),
    2: BlockType("Q4_0", 32, 18, _q4_0),
    3: BlockType("Q4_1", 32, 20, _q4_1),
    6: BlockType("Q5_0", 32, 22, _q5_0),
    7: BlockType("Q5_1", 32, 24, _q5_1),
    8: BlockType("Q8_0", 32, 34, _q8_0),
    12: BlockType("Q4_K", 256, 144, _q4_k),
    13: BlockType("Q5_K", 256, 176, _q5_k),
    14: BlockType("Q6_K", 256, 210, _q6_k),
    30: BlockType("BF16", 1, 2, _bf16),
}
"""The types by their numbers in a file."""
