"""List the supported block types of GGUF (its formats of quantized values), and decode them with the package gguf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class BlockType:
    """A block type (storage format of tensors): its name, the number of values per block, and the bytes per block."""

    name: str
    size: int
    nbytes: int


BLOCKS = {
    0: BlockType("F32", 1, 4),
    1: BlockType("F16", 1, 2),
    2: BlockType("Q4_0", 32, 18),
    3: BlockType("Q4_1", 32, 20),
    6: BlockType("Q5_0", 32, 22),
    7: BlockType("Q5_1", 32, 24),
    8: BlockType("Q8_0", 32, 34),
    12: BlockType("Q4_K", 256, 144),
    13: BlockType("Q5_K", 256, 176),
    14: BlockType("Q6_K", 256, 210),
    30: BlockType("BF16", 1, 2),
}
"""Block types by number in a file. They are listed here, because tokenizers are read without the package gguf."""


def decode_rows(block: BlockType, rows: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Decode rows of a tensor: uint8 [n, bytes per row] -> float32 [n, values per row]."""
    from gguf import GGMLQuantizationType  # part of the extra `compile`
    from gguf.quants import dequantize

    with np.errstate(invalid="ignore", over="ignore"):  # damaged files may have invalid scales
        values: Any = dequantize(np.array(rows), GGMLQuantizationType[block.name])
    return np.asarray(values, np.float32)
