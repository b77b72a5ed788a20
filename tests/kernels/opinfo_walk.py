"""Walk PyTorch's operator database as a source of kernel calls: entries with their samples, dtypes and layouts."""

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
# Only these entries are walked with complex64 too: no other operator of the kernel library supports complex tensors.
COMPLEX_ENTRIES = ("fft.", "stft", "istft", "conj", "view_as_real", "view_as_complex", "real", "imag")


@dataclass(frozen=True)
class Extent:
    """Limits on the part of the database that one walk covers."""

    samples: int  # max number of an entry's `sample_inputs`, for float32 and for int64
    references: int  # max number of its `reference_inputs`, for float32 and for int64
    others: int  # max number of each of the two kinds, for every other dtype
    dtypes: tuple[torch.dtype, ...] = tuple(EDGE_DTYPES)
    layouts: tuple[str, ...] = ("contiguous", "strided")
    seed: int = 0


def strided(value: Any) -> Any:
    """Return the same values in another memory layout: channels last for four dims, else first and last dim swapped."""
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
    dtypes = [d for d in extent.dtypes if d in entry.dtypes]
    if entry.name.startswith(COMPLEX_ENTRIES) and torch.complex64 in entry.dtypes:
        dtypes.append(torch.complex64)
    return dtypes


def samples_of(entry: Any, dtype: torch.dtype, extent: Extent) -> Iterator[Any]:
    """Yield sample inputs, then reference inputs. A generator that does not support this dtype yields none."""
    limit = sys.maxsize if dtype in (torch.float32, torch.int64) else extent.others
    for generator, max_count in [(entry.sample_inputs, extent.samples), (entry.reference_inputs, extent.references)]:
        if max_count == 0:
            continue
        torch.manual_seed(extent.seed)
        random.seed(extent.seed)
        try:
            yield from itertools.islice(generator("cpu", dtype, requires_grad=False), min(max_count, limit))
        except Exception:
            continue


def walk(entry: Any, checker: Checker, extent: Extent) -> None:
    """Call the entry's operator on each of its samples under `checker`.

    Autograd is disabled: its kernels would decompose composite operators before the checker sees them.
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
                    continue  # eager PyTorch does not support this call either
