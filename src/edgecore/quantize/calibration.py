"""Calibration samples: the inputs from which a quantizer learns the range of every value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgecore.errors import CompileError

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


def with_progress(calibration: Iterable[Any] | str | Path) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield the same as `samples`, and show a progress bar if stderr is a terminal.

    If the number of samples is unknown, as for a generator, it shows a count instead of a bar.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    total = len(calibration) if isinstance(calibration, Sized) and not isinstance(calibration, str) else None
    columns = (TextColumn("calibrating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(file=sys.stderr, highlight=False)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(samples(calibration), total=total)


def _files(folder: Path) -> Iterator[tuple[Any, ...]]:
    paths = sorted(path for path in folder.glob("*.np[yz]") if path.is_file()) if folder.is_dir() else []
    if not paths:
        raise CompileError(f"{folder} is not a folder with .npy or .npz files (one per sample)")
    yield from map(read_file, paths)


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
