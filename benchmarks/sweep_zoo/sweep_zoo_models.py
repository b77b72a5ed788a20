"""Models of tests/zoo.py and samples for quantizing them, as functions that a sweep names: see sweep_zoo.toml."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[2] / "tests"))
import zoo


def samples(name: str) -> list[tuple[torch.Tensor, ...]]:
    inputs = zoo.make(name)[1]
    return [inputs, *([zoo.other_inputs(inputs)] if inputs[0].dtype.is_floating_point else [])]


def __getattr__(name: str):
    """Return the function `NAME`, which makes a model and its inputs, or `NAME_samples`, which makes its samples."""
    model = name.removesuffix("_samples")
    if model not in zoo.ALL:
        raise AttributeError(name)
    return partial(zoo.make if model == name else samples, model)
