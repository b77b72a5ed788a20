"""Parse GGUF files. The files are not trusted: every count is checked before it is used.

The reader of the package gguf (0.19.0) does not check counts: it accepts a file of 49 bytes whose header announces
100,000 numbers, so a small file could exhaust time and memory. So edgecore uses only the package's decoders of blocks
(`gguf_blocks.py`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgecore_llm.checkpoints.gguf_blocks import BLOCKS, BlockType
from edgecore_llm.errors import CheckpointError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_DIMS, _MAX_ALIGNMENT = 4, 1 << 16
_SMALLEST_ENTRY, _SMALLEST_TENSOR = 8 + 4 + 1, 8 + 4 + 8 + 4 + 8


@dataclass(frozen=True)
class GgufTensor:
    """A tensor of a GGUF file: its shape (innermost dimension last), block type, and offset of its data in bytes."""

    name: str
    shape: tuple[int, ...]
    type: BlockType
    offset: int
    nbytes: int


class GgufFile:
    """A memory-mapped GGUF file.

    Attributes:
        metadata: The metadata entries by key.
        tensors: The tensors by name.

    Raises:
        CheckpointError: The file is truncated or damaged, or a tensor has an unsupported type.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._bytes: NDArray[np.uint8] = np.memmap(path, np.uint8, "r")
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
        self._place = 0
        if bytes(self._bytes[:4]) != b"GGUF":
            raise CheckpointError(f"{path} is no GGUF file")
        self._place = 4
        version = self._number("I")
        if version not in (2, 3):
            raise CheckpointError(
                f"{path} has version {version} of GGUF or another byte order; versions 2 and 3 are read"
            )
        tensors = self._count("tensors", _SMALLEST_TENSOR, self._number("Q"))
        entries = self._count("entries of metadata", _SMALLEST_ENTRY, self._number("Q"))
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self._string()
            self.metadata[key] = self._value(self._number("I"))
        listed = [self._tensor() for _ in range(tensors)]
        self.tensors = {tensor.name: tensor for tensor in self._placed(listed)}
        if len(self.tensors) != len(listed):
            raise CheckpointError(f"{path} has two tensors of one name")

    def raw(self, name: str) -> NDArray[np.uint8]:
        """Return the memory-mapped bytes of a tensor, uint8 [rows, bytes per row]."""
        tensor = self.tensors[name]
        data = self._bytes[tensor.offset : tensor.offset + tensor.nbytes]
        return data.reshape(prod(tensor.shape[:-1]), -1)

    def _damaged(self, reason: str) -> CheckpointError:
        return CheckpointError(f"{self.path} is truncated or damaged: {reason}")

    def _take(self, size: int) -> bytes:
        if size > len(self._bytes) - self._place:
            raise self._damaged(f"it ends within its header, after {len(self._bytes)} bytes")
        self._place += size
        return bytes(self._bytes[self._place - size : self._place])

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}")))[0]

    def _count(self, noun: str, smallest: int, count: int) -> int:
        """Check that the rest of the file can hold `count` items of at least `smallest` bytes, and return `count`."""
        if count * smallest > len(self._bytes) - self._place:
            raise self._damaged(f"it has room for fewer than {count} {noun}")
        return count

    def _string(self) -> str:
        return self._take(self._number("Q")).decode("utf-8", "surrogateescape")

    def _value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            raise self._damaged(f"metadata of unknown type {kind}")
        element = self._number("I")
        if element == _STRING:
            return [self._string() for _ in range(self._count("strings", 8, self._number("Q")))]
        if element not in _SCALARS:
            raise self._damaged(f"a list of unknown type {element}")
        dtype = np.dtype(_SCALARS[element]).newbyteorder("<")
        count = self._count("numbers", dtype.itemsize, self._number("Q"))
        return np.frombuffer(self._take(count * dtype.itemsize), dtype).tolist()

    def _tensor(self) -> GgufTensor:
        name, count = self._string(), self._number("I")
        if not 1 <= count <= _MAX_DIMS:
            raise self._damaged(f"tensor {name!r} has {count} dimensions")
        shape = tuple(self._number("Q") for _ in range(count))[::-1]
        kind, offset = self._number("I"), self._number("Q")
        if kind not in BLOCKS:
            known = ", ".join(sorted(block.name for block in BLOCKS.values()))
            raise CheckpointError(
                f"tensor {name!r} of {self.path} has type {kind}; the types that are read are {known}"
            )
        block = BLOCKS[kind]
        if 0 in shape or shape[-1] % block.size:
            raise self._damaged(f"tensor {name!r} of type {block.name} has shape {list(shape)}")
        return GgufTensor(name, shape, block, offset, prod(shape) // block.size * block.nbytes)

    def _placed(self, tensors: list[GgufTensor]) -> list[GgufTensor]:
        """Check the tensors' offsets, and return the tensors with the offsets counted from the start of the file."""
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 1 <= alignment <= _MAX_ALIGNMENT:
            raise self._damaged(f"its alignment is {alignment!r}")
        start, placed = -(-self._place // alignment) * alignment, []
        for tensor in tensors:
            end = start + tensor.offset + tensor.nbytes
            if end > len(self._bytes):
                raise self._damaged(f"tensor {tensor.name!r} ends at byte {end}, but there are {len(self._bytes)}")
            placed.append(GgufTensor(tensor.name, tensor.shape, tensor.type, start + tensor.offset, tensor.nbytes))
        return placed
