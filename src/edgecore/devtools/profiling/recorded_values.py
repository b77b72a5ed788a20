"""Read the values that a runtime recorded. An ETDump describes them; the debug buffer holds the bytes of tensors."""

from __future__ import annotations

from math import prod
from mmap import mmap
from typing import Any

from edgecore.format.dtypes import DTYPES, ScalarType
from edgecore.format.etdump import Tensor, Value, ValueType

_PLAIN = {
    ValueType.INT: ("int_value", "int_val"),
    ValueType.BOOL: ("bool_value", "bool_val"),
    ValueType.FLOAT: ("float_value", "float_val"),
    ValueType.DOUBLE: ("double_value", "double_val"),
}


class Values:
    """Reads recorded values. Tensors need the debug buffer and torch; without the buffer they are None."""

    def __init__(self, buffer: bytes | mmap | None = None) -> None:
        self._buffer = buffer

    def read(self, value: Value | None) -> Any:
        """Return a number, a tensor or a list of tensors; None for a missing value."""
        if value is None:
            return None
        if value.val in _PLAIN:
            member, name = _PLAIN[value.val]
            return getattr(getattr(value, member), name, None)
        if value.val == ValueType.TENSOR:
            return self._tensor(value.tensor)
        if value.val == ValueType.TENSOR_LIST and value.tensor_list is not None:
            return [self._tensor(tensor) for tensor in value.tensor_list.tensors]
        return None

    def _tensor(self, tensor: Tensor | None) -> Any:
        if tensor is None or self._buffer is None:
            return None
        try:
            row = DTYPES[ScalarType(tensor.scalar_type)]
        except (ValueError, KeyError):
            return None
        import torch

        dtype = getattr(torch, row.name, None)
        if dtype is None or min(tensor.sizes, default=0) < 0:
            return None
        size = prod(tensor.sizes) * dtype.itemsize
        if tensor.offset < 0 or (size and tensor.offset + size > len(self._buffer)):
            return None
        elements = bytearray(self._buffer[tensor.offset : tensor.offset + size])
        try:
            flat = torch.frombuffer(elements, dtype=dtype) if size else torch.zeros(0, dtype=dtype)
            return flat.as_strided(tensor.sizes, tensor.strides) if _dense(tensor) else flat.view(tensor.sizes)
        except RuntimeError:  # return no value: a damaged file has impossible sizes or strides
            return None


def _dense(tensor: Tensor) -> bool:
    """Return True if the elements of a tensor neither overlap nor leave gaps in memory."""
    if len(tensor.strides) != len(tensor.sizes):
        return False
    expected = 1
    for stride, size in sorted(zip(tensor.strides, tensor.sizes, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
