"""Torch dtypes: their numbers in `.pte` files, and the letters that abbreviate them in `dtype_rules.json`.

Both come from the table in `edgecore.format.dtypes`.
"""

from __future__ import annotations

import torch

from edgecore.errors import CompileError
from edgecore.format.dtypes import DTYPES, ScalarType

DTYPE_LETTERS: dict[torch.dtype, str] = {getattr(torch, row.name): row.letter for row in DTYPES.values() if row.letter}
"""The dtypes of the edge dialect, with their letters in `dtype_rules.json`."""

_SCALAR_TYPES: dict[torch.dtype, ScalarType] = {
    getattr(torch, row.name): number for number, row in DTYPES.items() if row.letter or row.code
}


def scalar_type(dtype: torch.dtype) -> ScalarType:
    """Return the number by which `.pte` files store a dtype.

    Raises:
        CompileError: edgecore cannot write tensors of this dtype to a file.
    """
    if dtype not in _SCALAR_TYPES:
        raise CompileError(f"the .pte format has no {dtype}")
    return _SCALAR_TYPES[dtype]


def torch_dtype(number: ScalarType) -> torch.dtype:
    """Return the dtype that `.pte` files store as `number`."""
    return next(dtype for dtype, scalar_type in _SCALAR_TYPES.items() if scalar_type == number)


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype without `torch.`, such as `float32`."""
    return str(dtype).removeprefix("torch.")
