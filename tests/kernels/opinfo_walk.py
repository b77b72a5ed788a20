"""PyTorch's operator database as a source of kernel calls: every entry, its samples, dtypes and memory layouts."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from checker import Checker
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core as opinfo_core

EDGE_DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]
# Fourier transforms and views of complex numbers are the only listed operators with complex values.
COMPLEX_ENTRIES = ("fft.", "stft", "istft", "conj", "view_as_real", "view_as_complex", "real", "imag")


@dataclass(frozen=True)
class Extent:
    """How much of the database one walk takes."""

    samples: int  # of an entry's `sample_inputs`, for float32 and for int64
    references: int  # of its `reference_inputs`, for float32 and for int64
    others: int  # of both kinds, for each other dtype
    dtypes: tuple[torch.dtype, ...] = tuple(EDGE_DTYPES)
    layouts: tuple[str, ...] = ("contiguous", "strided")
    seed: int = 0


def strided(value: Any) -> Any:
    """The same numbers with the first and last dims swapped in memory, and channels last for four dims."""
    if isinstance(value, (list, tuple)):
        return type(value)(strided(v) for v in value)
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.dim() < 2:
        return value
    if value.dim() == 4:
        return value.contiguous(memory_format=torch.channels_last)
    return value.transpose(0, -1).contiguous().transpose(0, -1)


def unchanged(value: Any) -> Any:
    return value


LAYOUTS: dict[str, Callable[[Any], Any]] = {"contiguous": unchanged, "strided": strided}

# Each call of a sample generator looks through the whole stack for the torch test that called it, which takes 20 ms
# under pytest; here no test is torch's.
opinfo_core.extract_test_fn = lambda: None  # type: ignore[attr-defined]


def entries() -> list[Any]:
    return list(op_db)


def dtypes_of(entry: Any, extent: Extent) -> list[torch.dtype]:
    found = [d for d in extent.dtypes if d in entry.dtypes]
    if entry.name.startswith(COMPLEX_ENTRIES) and torch.complex64 in entry.dtypes:
        found.append(torch.complex64)
    return found


def samples_of(entry: Any, dtype: torch.dtype, extent: Extent) -> Iterator[Any]:
    """Sample inputs, then reference inputs. A generator that the entry cannot make for this dtype gives none."""
    limit = sys.maxsize if dtype in (torch.float32, torch.int64) else extent.others
    for generator, most in [(entry.sample_inputs, extent.samples), (entry.reference_inputs, extent.references)]:
        if most == 0:
            continue
        torch.manual_seed(extent.seed)
        random.seed(extent.seed)
        try:
            yield from itertools.islice(generator("cpu", dtype, requires_grad=False), min(most, limit))
        except Exception:
            continue


def walk(entry: Any, checker: Checker, extent: Extent) -> None:
    """Calls the entry over its samples under `checker`.

    Autograd is left out, because its kernels would take composite operators apart before the checker sees them.
    """
    for dtype in dtypes_of(entry, extent):
        for sample in samples_of(entry, dtype, extent):
            for layout in extent.layouts:
                change = LAYOUTS[layout]
                args = [change(a) for a in (sample.input, *sample.args)]
                kwargs = {k: change(v) for k, v in sample.kwargs.items()}
                torch.manual_seed(extent.seed)
                try:
                    with torch.no_grad(), torch._C._AutoDispatchBelowAutograd(), checker:
                        entry.op(*args, **kwargs)
                except Exception:
                    continue  # eager itself cannot
