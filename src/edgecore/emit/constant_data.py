"""Convert constant tensors to bytes, and store equal bytes once; lazy constants are written to a temporary file."""

from __future__ import annotations

import numpy as np
import torch

from edgecore import format as fmt
from edgecore.emit.constants_file import ConstantsFile
from edgecore.format.segments import parts
from edgecore.ir.program.lazy_constants import load, pieces_of


class ConstantData:
    """Converts constant tensors to bytes, and returns the same buffer object for tensors with equal bytes."""

    def __init__(self) -> None:
        self._by_storage: dict[tuple[int, torch.dtype, torch.Size, tuple[int, ...], tuple[int, ...]], fmt.Buffer] = {}
        self._by_sample: dict[
            tuple[int, bytes], list[fmt.Buffer]
        ] = {}  # (size, sample of the bytes) -> buffers with this size and sample
        self._alive: list[torch.Tensor] = []
        self._file = ConstantsFile()

    def of(self, tensor: torch.Tensor, order: tuple[int, ...]) -> fmt.Buffer:
        """Return the bytes of `tensor` in dim order `order`."""
        key = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), order)
        if key not in self._by_storage:
            # Keep the tensor alive, because `_by_storage` identifies tensors by address: a new tensor could reuse the
            # address.
            self._alive.append(tensor)
            pieces = pieces_of(tensor) if order == tuple(range(tensor.dim())) else None
            data = tensor_bytes(load(tensor), order) if pieces is None else self._file.add(pieces, tensor.nbytes)
            self._by_storage[key] = self._unique(data)
        return self._by_storage[key]

    def _unique(self, data: fmt.Buffer) -> fmt.Buffer:
        size = len(data)
        sample = bytes(data[:64]) + bytes(data[size // 2 : size // 2 + 64]) + bytes(data[max(size - 64, 0) :])
        candidates = self._by_sample.setdefault((size, sample), [])
        for candidate in candidates:
            if equal_bytes(candidate, data):
                return candidate
        candidates.append(data)
        return data


def equal_bytes(a: fmt.Buffer, b: fmt.Buffer) -> bool:
    """Return True if two buffers have equal bytes. Uses numpy: `==` of memoryviews is a slow loop over bytes."""
    if memoryview(a).nbytes != memoryview(b).nbytes:
        return False
    pairs = zip(parts(a), parts(b), strict=True)
    return all(np.array_equal(np.frombuffer(x, np.uint8), np.frombuffer(y, np.uint8)) for x, y in pairs)


def tensor_bytes(tensor: torch.Tensor, order: tuple[int, ...]) -> fmt.Buffer:
    """Return the elements of `tensor` in dim order `order` as bytes; where possible a view of the tensor's memory."""
    dense = tensor.detach().permute(order).contiguous()
    # For a single element, `reshape(-1)` would keep the old stride, but `view(torch.uint8)` needs a stride of 1.
    flat = dense.as_strided((dense.numel(),), (1,))
    return flat.view(torch.uint8).numpy().data if dense.numel() else b""
