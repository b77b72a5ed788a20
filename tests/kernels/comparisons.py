"""Comparisons of kernels with eager PyTorch that run both here and on an emulated processor."""

from __future__ import annotations

import math

import torch
from checker import Catalog, Checker
from native import Library
from opinfo_table import REASONS
from opinfo_walk import Extent, entries, walk


def disagreements(library: Library, extent: Extent) -> list[str]:
    """Return a line for each operator that does not equal eager on samples of the operator database."""
    torch.set_num_threads(1)
    checker = Checker(Catalog(library))
    for entry in entries():
        walk(entry, checker, extent)
    assert len(checker.passed) > 150
    return [
        f"{name}: {len(failures)} failed, {checker.passed[name]} passed; {failures[0]}"
        for name, failures in checker.failed.items()
        if name not in REASONS
    ]


def check_16_bits(library: Library, copy: str, dtype: torch.dtype) -> None:
    """Check the conversions of operator `copy` from every number of a dtype of 16 bits, and to it from neighbours."""
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)
    wide = torch.empty(65536)
    library.call(copy, every, False, None, wide)
    torch.testing.assert_close(wide, every.float(), rtol=0, atol=0, equal_nan=True)
    values = torch.cat(
        [wide, wide.nextafter(torch.tensor(math.inf)), wide * 1.0003, wide.nextafter(torch.tensor(-math.inf))]
    )
    narrow = torch.empty(values.shape, dtype=dtype)
    library.call(copy, values, False, None, narrow)
    torch.testing.assert_close(narrow, values.to(dtype), rtol=0, atol=0, equal_nan=True)
