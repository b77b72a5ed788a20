"""Inputs that show a quantizer the range of every value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgecore.errors import CompileError

Calibration = Callable[[Callable[..., Any]], None] | Iterable[Any] | str | Path
"""A function that calls the model it is given, an iterable of inputs (a tuple each, the only tensor, or a mapping of keyword
arguments; a data loader will do), or a folder of `.npy` files (one per sample; `.npz` with one entry per input, in order, for several inputs)."""


def samples(calibration: Iterable[Any] | str | Path) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Positional and keyword inputs, one sample after another. Raises `CompileError` for a folder without samples."""
    if isinstance(calibration, (str, Path)):
        yield from ((arrays, {}) for arrays in _files(Path(calibration)))
        return
    for sample in calibration:
        if isinstance(sample, Mapping):
            yield (), dict(sample)
        else:
            yield tuple(sample) if isinstance(sample, (tuple, list)) else (sample,), {}


def _files(folder: Path) -> Iterator[tuple[Any, ...]]:
    paths = sorted(path for path in folder.glob("*.np[yz]") if path.is_file()) if folder.is_dir() else []
    if not paths:
        raise CompileError(f"calibration: {folder} is no folder with .npy or .npz files (one per sample)")
    for path in paths:
        try:
            with path.open("rb") as file:
                loaded = np.load(file, allow_pickle=False)
                arrays = [loaded] if isinstance(loaded, np.ndarray) else [loaded[name] for name in loaded.files]
        except (OSError, ValueError, EOFError) as error:
            raise CompileError(f"calibration: {path} cannot be read as numpy arrays: {error}") from error
        yield tuple(torch.from_numpy(array) for array in arrays)
