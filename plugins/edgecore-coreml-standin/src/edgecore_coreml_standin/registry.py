"""The table of the MIL operators that are implemented with PyTorch, and helpers that read their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

OPS: dict[str, Callable[..., Any]] = {}
"""Maps the name of a MIL operator to a function with the operator's argument names, which computes the result. Constant
arguments are tensors, strings or lists."""


def mil(name: str | None = None) -> Callable[[Any], Any]:
    """Register a function as the MIL operator `name`; the default is the function's name without a trailing `_`."""

    def register(function: Any) -> Any:
        OPS[name or function.__name__.rstrip("_")] = function
        return function

    return register


def ints(value: Any) -> list[int]:
    return [int(item) for item in (value.tolist() if isinstance(value, torch.Tensor) else value)]


def ones_if_absent(value: Tensor | None, rank: int) -> list[int]:
    return [1] * rank if value is None else ints(value)


def dims_of(x: torch.Tensor, axes: Any) -> list[int]:
    return list(range(x.dim())) if axes is None else ints(axes if axes.dim() else axes[None])
