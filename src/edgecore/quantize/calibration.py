"""Calibration samples: the inputs from which a quantizer learns the range of every value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgecore.errors import CompileError
from edgecore.progress import track

Calibration = Callable[[Callable[..., Any]], None] | Iterable[Any] | str | Path
"""The samples for calibration, in one of these forms:

- a function that receives the model and calls it;
- an iterable, such as a data loader, of samples: each is a tuple of inputs, a tensor if there is only one input, or a
  mapping of keyword arguments;
- a folder with a file per sample: `.npy` for one input, or `.npz` with an entry per input, in order.
"""


def samples(calibration: Iterable[Any] | str | Path) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield the positional and keyword inputs of each sample.

    Raises:
        CompileError: A folder has no samples, or a file cannot be read.
    """
    if isinstance(calibration, (str, Path)):
        yield from ((arrays, {}) for arrays in _files(Path(calibration)))
        return
    for sample in calibration:
        if isinstance(sample, Mapping):
            yield (), dict(sample)
        else:
            yield tuple(sample) if isinstance(sample, (tuple, list)) else (sample,), {}


def tracked_samples(
    calibration: Iterable[Any] | str | Path,
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield the samples as `samples` does, and report a task with a step for each sample."""
    if isinstance(calibration, (str, Path)):
        total: int | None = len(_paths(Path(calibration)))
    else:
        total = len(calibration) if isinstance(calibration, Sized) else None
    yield from track(samples(calibration), "calibrating", total)


def sample_name(calibration: Iterable[Any] | str | Path, number: int) -> str:
    """Return the path of a folder's sample, or of any other calibration the number itself; `number` counts from 1."""
    return str(_paths(Path(calibration))[number - 1]) if isinstance(calibration, (str, Path)) else str(number)


def _files(folder: Path) -> Iterator[tuple[Any, ...]]:
    paths = _paths(folder)
    if not paths:
        raise CompileError(f"{folder} is not a folder with .npy or .npz files (one per sample)")
    yield from map(read_file, paths)


def _paths(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.np[yz]") if path.is_file()) if folder.is_dir() else []


def read_file(path: Path) -> tuple[torch.Tensor, ...]:
    """Read the sample of a `.npy` or `.npz` file.

    Raises:
        CompileError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            arrays = [loaded] if isinstance(loaded, np.ndarray) else [loaded[name] for name in loaded.files]
    except (OSError, ValueError, EOFError) as error:
        raise CompileError(f"sample {path} cannot be read as NumPy arrays: {error}") from error
    return tuple(torch.from_numpy(array) for array in arrays)
