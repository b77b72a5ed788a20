"""What the methods of one file share: constants, delegate blobs and named data, each stored once."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from edgecore import format as fmt
from edgecore.errors import CompileError
from edgecore.plugin import PreprocessResult

SCALAR_TYPES: dict[torch.dtype, fmt.ScalarType] = {
    torch.uint8: fmt.ScalarType.BYTE, torch.int8: fmt.ScalarType.CHAR, torch.int16: fmt.ScalarType.SHORT,
    torch.int32: fmt.ScalarType.INT, torch.int64: fmt.ScalarType.LONG, torch.float16: fmt.ScalarType.HALF,
    torch.float32: fmt.ScalarType.FLOAT, torch.float64: fmt.ScalarType.DOUBLE, torch.bool: fmt.ScalarType.BOOL,
    torch.bfloat16: fmt.ScalarType.BFLOAT16, torch.uint16: fmt.ScalarType.UINT16, torch.uint32: fmt.ScalarType.UINT32,
    torch.uint64: fmt.ScalarType.UINT64,
}  # fmt: skip


@dataclass
class Pools:
    """The data of a file in the making."""

    constants: list[fmt.Buffer] = field(default_factory=lambda: [b""])
    mutable: list[fmt.Buffer] = field(default_factory=list)
    blobs: list[fmt.Buffer] = field(default_factory=list)
    named_data: dict[str, fmt.NamedBlob] = field(default_factory=dict)
    _known: dict[tuple[int, int, torch.dtype, tuple[int, ...]], int] = field(default_factory=dict)
    _alive: list[torch.Tensor] = field(default_factory=list)

    def constant(self, tensor: torch.Tensor, order: tuple[int, ...]) -> int:
        """`data_buffer_idx` of a constant laid out in dim order `order`; the same storage is stored once."""
        key = (tensor.data_ptr(), tensor.numel(), tensor.dtype, tensor.stride())
        if tensor.numel() and key in self._known:
            return self._known[key]
        self._alive.append(tensor)  # a freed tensor's address could come back as another's
        self.constants.append(tensor_bytes(tensor, order))
        self._known[key] = len(self.constants) - 1
        return len(self.constants) - 1

    def initial_state(self, tensor: torch.Tensor, order: tuple[int, ...]) -> int:
        """`data_buffer_idx` of the initial content of a mutable tensor."""
        if not self.mutable:
            self.mutable.append(b"")
        self.mutable.append(tensor_bytes(tensor, order))
        return len(self.mutable) - 1

    def delegate(self, backend_id: str, result: PreprocessResult) -> int:
        """Index of a delegate's blob; its named data join the file's."""
        for key, blob in result.named_data.items():
            known = self.named_data.get(key)
            if known is None:
                self.named_data[key] = fmt.NamedBlob(blob.data, blob.alignment)
            elif memoryview(known.data) != memoryview(blob.data):
                raise CompileError(f"{backend_id} uses the named-data key {key!r}, which holds other bytes already")
        self.blobs.append(result.blob)
        return len(self.blobs) - 1


def tensor_bytes(tensor: torch.Tensor, order: tuple[int, ...]) -> fmt.Buffer:
    """The elements of `tensor` with its dimensions in the given order, outermost first, as a buffer without a copy."""
    dense = tensor.detach().permute(order).contiguous()
    return dense.reshape(-1).view(torch.uint8).numpy().data if dense.numel() else b""


def scalar_type(dtype: torch.dtype) -> fmt.ScalarType:
    """The file's number of a dtype; `CompileError` if it has none."""
    if dtype not in SCALAR_TYPES:
        raise CompileError(f"the .pte format has no {dtype}")
    return SCALAR_TYPES[dtype]
