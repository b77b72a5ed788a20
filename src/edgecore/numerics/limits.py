"""Limits above which the error of a runtime is more than rounding explains."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from edgecore.numerics.metrics import magnitude, measure

RELATIVE_BOUND = {torch.float64: 1e-3, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""Bound for the error of the runtime, relative to the largest magnitude of the value, by the dtype of the value.

In deep networks, adding the terms of sums in another order changes the output by about 1e-5; a wrong row or channel
changes it by 0.1 or more.
"""

NOISE_MARGIN = 3.0
"""Ratio of the error bound to the change of a value in eager mode when noise is added to values before rounding."""

NOISE_SEEDS = 3
"""Number of eager runs with different noise; the bound follows from the run whose value changes most."""

MASK = 1e4
"""The magnitude from which values may be those that a mask writes, such as -1e9; beside them no error would show."""


def error_limit(
    want: torch.Tensor,
    got: torch.Tensor,
    moved: Iterable[torch.Tensor] = (),
    *,
    dtype: torch.dtype | None = None,
    tolerance: float | None = None,
) -> float:
    """Return the largest absolute error of `got` that is no fault; infinite if noise moves an element to infinity.

    Args:
        want: The expected value.
        got: The value of the runtime.
        moved: Expected values with noise before each rounding.
        dtype: The dtype in which the runtime computes float32 values; by default float32.
        tolerance: The limit relative to the largest magnitude, in place of the limit of the dtype.
    """
    computed = dtype if dtype is not None and want.dtype == torch.float32 else want.dtype
    relative = RELATIVE_BOUND.get(computed, 1e-3 if want.is_complex() else 0.0) if tolerance is None else tolerance
    return max(relative * unmasked_magnitude(want, got), noise_limit(want, moved))


def noise_limit(want: torch.Tensor, moved: Iterable[torch.Tensor]) -> float:
    """Return the error that rounding explains, from expected values with noise before each rounding."""
    return NOISE_MARGIN * max((measure(want, other).largest for other in moved), default=0.0)


def unmasked_magnitude(want: torch.Tensor, got: torch.Tensor) -> float:
    """Return the largest magnitude, without the far larger values of a mask, which are equal in both."""
    largest = magnitude(want)
    if not want.is_floating_point() or largest < MASK:
        return largest
    others = want.abs() <= largest / 1000
    small = magnitude(want[others])
    return small if small and torch.equal(want[~others], got[~others]) else largest
