"""Limits of a runtime's error: a larger error cannot be explained by rounding."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from edgecore.numerics.metrics import magnitude, measure

RELATIVE_BOUND = {torch.float64: 1e-3, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""Largest error of a runtime relative to the largest magnitude of the value, by the dtype of the value.

In deep networks, summing in another order changes the output by about 1e-5; a wrong row or channel changes it by 0.1 or
more.
"""

NOISE_MARGIN = 3.0
"""Ratio of a value's error limit to its change in eager PyTorch when noise is added before each rounding."""

NOISE_SEEDS = 3
"""Number of eager runs with different noise; the run whose value changes most gives the limit."""

MASK = 1e4
"""Elements of at least this magnitude may come from a mask, such as -1e9; relative to them any error looks small."""


def error_limit(
    want: torch.Tensor,
    got: torch.Tensor,
    moved: Iterable[torch.Tensor] = (),
    *,
    dtype: torch.dtype | None = None,
    tolerance: float | None = None,
) -> float:
    """Return the largest absolute error of `got` that rounding explains; infinite if noise makes an element infinite.

    Args:
        want: The expected value.
        got: The runtime's value.
        moved: The expected value, computed several times with noise added before each rounding.
        dtype: The dtype in which the runtime computes float32 values; by default float32.
        tolerance: The limit relative to the largest magnitude; replaces the limit of the dtype.
    """
    computed = dtype if dtype is not None and want.dtype == torch.float32 else want.dtype
    relative = RELATIVE_BOUND.get(computed, 1e-3 if want.is_complex() else 0.0) if tolerance is None else tolerance
    return max(relative * unmasked_magnitude(want, got), noise_limit(want, moved))


def noise_limit(want: torch.Tensor, moved: Iterable[torch.Tensor]) -> float:
    """Return the error that rounding explains, from expected values with noise added before each rounding."""
    return NOISE_MARGIN * max((measure(want, other).largest for other in moved), default=0.0)


def unmasked_magnitude(want: torch.Tensor, got: torch.Tensor) -> float:
    """Return the largest magnitude of `want`, without the far larger elements of a mask if `got` has them, too."""
    largest = magnitude(want)
    if not want.is_floating_point() or largest < MASK:
        return largest
    others = want.abs() <= largest / 1000
    small = magnitude(want[others])
    return small if small and torch.equal(want[~others], got[~others]) else largest
