"""The element types of tensors in one table, for files, tools and messages. This module does not import torch.

`edgecore.ir.dialect.dtypes` maps these types to torch's dtypes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ScalarType(IntEnum):
    """Element types, with the numbers of PyTorch's enum `ScalarType`."""

    BYTE = 0
    CHAR = 1
    SHORT = 2
    INT = 3
    LONG = 4
    HALF = 5
    FLOAT = 6
    DOUBLE = 7
    COMPLEX32 = 8  # executorch writes the three complex types into files, although its schema lacks them
    COMPLEX64 = 9
    COMPLEX128 = 10
    BOOL = 11
    QINT8 = 12
    QUINT8 = 13
    QINT32 = 14
    BFLOAT16 = 15
    QUINT4X2 = 16
    QUINT2X4 = 17
    BITS16 = 22
    FLOAT8_E5M2 = 23
    FLOAT8_E4M3FN = 24
    FLOAT8_E5M2FNUZ = 25
    FLOAT8_E4M3FNUZ = 26
    UINT16 = 27
    UINT32 = 28
    UINT64 = 29

    @property
    def dtype_name(self) -> str:
        """The name of the torch dtype, such as `float32`."""
        return DTYPES[self].name


@dataclass(frozen=True, slots=True)
class Dtype:
    """One element type.

    Attributes:
        name: The name of the torch dtype.
        size: The size of an element in bytes.
        code: The format character in Python's `struct` and buffer protocol; empty if there is none.
        letter: The abbreviation of the dtype in `ir/dialect/dtype_rules.json`, which lists the dtypes that operators
            accept; empty for a dtype that the edge dialect does not have.
    """

    name: str
    size: int
    code: str = ""
    letter: str = ""


DTYPES: dict[ScalarType, Dtype] = {
    ScalarType.BYTE: Dtype("uint8", 1, "B", "u"),
    ScalarType.CHAR: Dtype("int8", 1, "b", "c"),
    ScalarType.SHORT: Dtype("int16", 2, "h", "s"),
    ScalarType.INT: Dtype("int32", 4, "i", "i"),
    ScalarType.LONG: Dtype("int64", 8, "q", "l"),
    ScalarType.HALF: Dtype("float16", 2, "e", "h"),
    ScalarType.FLOAT: Dtype("float32", 4, "f", "f"),
    ScalarType.DOUBLE: Dtype("float64", 8, "d", "d"),
    ScalarType.COMPLEX32: Dtype("complex32", 4),
    ScalarType.COMPLEX64: Dtype("complex64", 8, letter="z"),
    ScalarType.COMPLEX128: Dtype("complex128", 16, letter="y"),
    ScalarType.BOOL: Dtype("bool", 1, "?", "b"),
    ScalarType.QINT8: Dtype("qint8", 1),
    ScalarType.QUINT8: Dtype("quint8", 1),
    ScalarType.QINT32: Dtype("qint32", 4),
    ScalarType.BFLOAT16: Dtype("bfloat16", 2, letter="e"),
    ScalarType.QUINT4X2: Dtype("quint4x2", 1),  # a byte holds two elements of quint4x2, four of quint2x4
    ScalarType.QUINT2X4: Dtype("quint2x4", 1),
    ScalarType.BITS16: Dtype("bits16", 2),
    ScalarType.FLOAT8_E5M2: Dtype("float8_e5m2", 1),
    ScalarType.FLOAT8_E4M3FN: Dtype("float8_e4m3fn", 1),
    ScalarType.FLOAT8_E5M2FNUZ: Dtype("float8_e5m2fnuz", 1),
    ScalarType.FLOAT8_E4M3FNUZ: Dtype("float8_e4m3fnuz", 1),
    ScalarType.UINT16: Dtype("uint16", 2, "H", "v"),
    ScalarType.UINT32: Dtype("uint32", 4, "I", "w"),
    ScalarType.UINT64: Dtype("uint64", 8, "Q"),
}

SCALAR_TYPE_SIZES: dict[ScalarType, int] = {number: dtype.size for number, dtype in DTYPES.items()}
"""Bytes per element; 1 for quint4x2 and quint2x4, where a byte holds several elements."""
