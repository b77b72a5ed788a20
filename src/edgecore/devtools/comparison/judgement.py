"""Decide whether the error of one operator is larger than rounding explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from edgecore.numerics.limits import RELATIVE_BOUND, error_limit, noise_limit, unmasked_magnitude
from edgecore.numerics.metrics import Difference, magnitude

TIE = 0.1
"""Distance, in quantization steps, from the middle between two quantized values, within which a device may round to
either of them (a tie). Summing in another order moves a value by about 0.001 steps."""

MORE_THAN_TIES = 0.01
"""Share of elements that may be rounded to the wrong quantized value without a tie; if more are, it is wrong."""


@dataclass(frozen=True)
class Judgement:
    """The error of one operator on the device relative to the largest error that rounding explains.

    Attributes:
        ratio: The error divided by its limit: the operator is wrong if this is above 1. It is 1 if no finite limit
            exists.
        why: The reason, as a sentence fragment.
    """

    ratio: float
    why: str = ""


def judge(
    gap: Difference,
    want: torch.Tensor,
    got: torch.Tensor,
    *,
    step: float | None,
    unrounded: torch.Tensor | None,
    tolerance: float | None,
    computes_in: torch.dtype,
    steps: int = 0,
    moved: Sequence[torch.Tensor] = (),
) -> Judgement:
    """Judge the error of one operator that the device and PyTorch computed on equal inputs.

    Args:
        gap: The difference of `got` from `want`.
        want: PyTorch's value.
        got: The device's value.
        step: The scale of a quantized value; None for other values.
        unrounded: PyTorch's value before its quantization; None if the value is not quantized.
        tolerance: The largest error relative to the largest magnitude; None for the limit of the dtype.
        computes_in: The dtype in which the backend computes floating-point values.
        steps: The difference in steps that the recipe allows a quantized value in addition to rounding.
        moved: PyTorch's values with noise added before each rounding inside the operator.
    """
    if gap.differing == 0:
        return Judgement(0.0)
    if want.shape != got.shape:
        return Judgement(math.inf, f"the shape {list(got.shape)} instead of {list(want.shape)}")
    if gap.nans or gap.infinities:
        return Judgement(math.inf, f"{gap.nans} NaN and {gap.infinities} infinite elements in place of numbers")
    if not math.isfinite(gap.largest):
        return Judgement(math.inf, "other elements than in PyTorch are NaN or infinite")
    bound = error_limit(want, got, moved, dtype=computes_in, tolerance=tolerance)
    if not math.isfinite(bound):
        return Judgement(1.0, "decides nothing: rounding alone makes other elements infinite or NaN")
    if step is not None and unrounded is not None and tolerance is None:
        slack = max(noise_limit(want, moved), _limit(unrounded, computes_in)) + steps * step
        return _judge_steps(want, got, step, unrounded, slack)
    ratio = gap.largest / bound if bound else math.inf
    if ratio <= 1:
        return Judgement(ratio)
    scale = unmasked_magnitude(want, got)
    largest = f"{gap.largest / scale:.2g} of the largest value" if scale else f"{gap.largest:.2g}"
    return Judgement(ratio, f"an error of {largest}; rounding explains {bound / (scale or 1):.2g}")


def _judge_steps(
    want: torch.Tensor, got: torch.Tensor, step: float, unrounded: torch.Tensor, slack: float
) -> Judgement:
    """Judge a quantized value: an element is off if it is over half a step plus `slack` from the unrounded value."""
    low, high = float(want.min()) - step / 2, float(want.max()) + step / 2
    off = want.ne(got)
    want, got, exact = want[off].double(), got[off].double(), unrounded[off].double()
    # NaN quantizes to any integer: expect the integer that PyTorch chose
    exact = torch.where(exact.isnan(), want, exact)
    exact = exact.clamp(low, high)  # PyTorch clamped `want` to the integers' range: clamp `exact`, too
    excess = ((got - exact).abs() - slack) / step - 0.5
    largest, share = float(excess.max()), int((excess > TIE).sum()) / off.numel()
    ratio = max(largest, share / MORE_THAN_TIES)
    if ratio <= 1:
        return Judgement(max(ratio, 0.0))
    if share <= MORE_THAN_TIES:
        return Judgement(ratio, f"an element is {largest + 0.5:.3g} steps off")
    return Judgement(
        ratio, f"{100 * share:.2g} % of the elements are off by up to {largest + 0.5:.3g} steps, not by ties"
    )


def _limit(unrounded: torch.Tensor, computes_in: torch.dtype) -> float:
    """Return the error allowed in a value before its quantization: 0 unless the backend computes in float16."""
    return RELATIVE_BOUND[computes_in] * magnitude(unrounded) if computes_in == torch.float16 else 0.0
