"""Errors of a value that a device computed, and the limits above which an error is more than rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from edgecore.pipeline.compare import NOISE_MARGIN, RELATIVE_BOUND
from edgecore.quantize.quality import signal_to_noise

TIE = 0.1
"""An element that a device rounds to the other neighbour is a tie if it lies within this share of a step of the middle
between two steps: sums in another order move a value by about 0.001 steps."""

MASK = 1e4
"""The magnitude from which values may be those that a mask writes, such as -1e9; beside them no error would show."""

MORE_THAN_TIES = 0.01
"""The share of elements, rounded to the other neighbour though they are no ties, above which an operator is at fault."""


@dataclass(frozen=True)
class Gap:
    """The difference of a value from the expected one.

    Attributes:
        sqnr: Signal to noise ratio in dB, over the elements that are finite in both; infinite for equal values.
        largest: The largest absolute difference; infinite if only one of two elements is finite.
        cosine: The cosine of the angle between the two, as vectors; 1 for equal values.
        differing: The share of elements that differ.
        steps: The largest difference in steps of the quantization; None if the value is not quantized.
        nans: The number of elements that are NaN, though NaN was not expected.
        infinities: The number of elements that are infinite, though a finite number was expected.
        sample: The number of the sample, from 0.
    """

    sqnr: float
    largest: float
    cosine: float
    differing: float
    steps: float | None = None
    nans: int = 0
    infinities: int = 0
    sample: int = 0

    def __str__(self) -> str:
        if self.differing == 0:
            return "equal"
        parts = [decibels(self.sqnr)]
        if self.steps is not None:
            amount = "1 step" if round(self.steps, 1) == 1 else f"at most {self.steps:.3g} steps"
            parts.append(f"{100 * self.differing:.2g} % by {amount}")
        else:
            parts.append(f"at most {self.largest:.2g}")
        parts += [f"{count} {name}" for count, name in ((self.nans, "NaN"), (self.infinities, "Inf")) if count]
        return ", ".join(parts)


def decibels(value: float) -> str:
    """Return an SQNR as text."""
    return "equal" if value == math.inf else "-inf dB" if value == -math.inf else f"{value:.1f} dB"


def measure(want: torch.Tensor, got: torch.Tensor, step: float | None = None, sample: int = 0) -> Gap:
    """Return the difference of `got` from `want`; values of different shapes differ everywhere."""
    if want.shape != got.shape:
        return Gap(-math.inf, math.inf, math.nan, 1.0, None, 0, 0, sample)
    equal = Gap(math.inf, 0.0, 1.0, 0.0, None if step is None else 0.0, 0, 0, sample)
    if torch.equal(want, got):
        return equal
    unequal_integers = want.ne(got) if want.dtype == got.dtype == torch.int64 else None
    want, got = _comparable(want), _comparable(got)
    error = (want - got).abs()
    if unequal_integers is not None:  # float64 does not hold all of them
        error = error.clamp(min=1).where(unequal_integers, 0.0)
    noise, largest = _norm(error), float(error.abs().max()) if error.numel() else 0.0
    if not math.isfinite(noise) and want.isfinite().all() and got.isfinite().all():
        scale = max(_magnitude(want), _magnitude(got))  # the difference, or its square, is too large for its dtype
        scaled = measure(want.double() / scale, got.double() / scale, None, sample)
        largest = scaled.largest * scale
        return replace(scaled, largest=largest, steps=None if step is None else largest / step)
    if not math.isfinite(noise):
        return _measure_not_finite(want, got, step, sample) or equal
    if largest == 0:  # 0 and -0
        return equal
    signal, other = _norm(want), _norm(got)
    sqnr = 20 * math.log10(signal / noise) if signal else -math.inf
    cosine = math.nan
    if signal and other:
        a, b = other / signal, noise / signal  # relative, as the squares of large numbers are infinite
        cosine = (1 + a * a - b * b) / (2 * a)
    differing = int(error.count_nonzero()) / error.numel()
    return Gap(sqnr, largest, cosine, differing, None if step is None else largest / step, 0, 0, sample)


def _measure_not_finite(want: torch.Tensor, got: torch.Tensor, step: float | None, sample: int) -> Gap | None:
    """Return the difference of values with NaN or infinities; None if there is none, as NaN equals NaN here."""
    different = want.ne(got) & ~(want.isnan() & got.isnan())
    count = int(different.sum())
    if count == 0:
        return None
    a, b = want[different].double(), got[different].double()
    largest = float((a - b).abs().nan_to_num(math.inf, math.inf).max())
    finite = want.isfinite() & got.isfinite()
    part = measure(want[finite], got[finite], step, sample)
    # NaN or infinity in place of a number is no small noise.
    sqnr = part.sqnr if math.isfinite(largest) else min(part.sqnr, 0.0)
    nans, infinities = int((b.isnan() & ~a.isnan()).sum()), int((b.isinf() & a.isfinite()).sum())
    steps = None if step is None else largest / step
    return Gap(sqnr, largest, part.cosine, count / want.numel(), steps, nans, infinities, sample)


def _norm(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))


def _comparable(value: torch.Tensor) -> torch.Tensor:
    """Return a real tensor of float32 or float64: of complex numbers both parts, of integers exactly if possible."""
    value = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    if value.dtype in (torch.float32, torch.float64):
        return value.detach()
    return value.float() if value.dtype in (torch.float16, torch.bfloat16, torch.int8, torch.uint8) else value.double()


@dataclass(frozen=True)
class Judgement:
    """The error of one operator beside its limit: `ratio` is above 1 if it is more than rounding, which `why` says.

    It is 1 if there is no finite limit.
    """

    ratio: float
    why: str = ""


def judge(
    gap: Gap,
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
    """Judge the error of one operator, whose inputs were those of the device.

    Args:
        gap: The difference of `got` from `want`.
        want: The value to expect.
        got: The value of the device.
        step: The scale, if the value is quantized.
        unrounded: The value to expect before it is quantized, if it is.
        tolerance: The largest error relative to the largest magnitude; None for the limit of the dtype.
        computes_in: The dtype in which the backend computes floating-point values.
        steps: The difference that the recipe allows a quantized value, in steps, beside the rounding.
        moved: The values to expect if noise is added before each rounding inside of the operator.
    """
    if gap.differing == 0:
        return Judgement(0.0)
    if want.shape != got.shape:
        return Judgement(math.inf, f"the shape {list(got.shape)} instead of {list(want.shape)}")
    if gap.nans or gap.infinities:
        return Judgement(math.inf, f"{gap.nans} NaN and {gap.infinities} infinite elements in place of numbers")
    if not math.isfinite(gap.largest):
        return Judgement(math.inf, "other elements than in PyTorch are NaN or infinite")
    noise = NOISE_MARGIN * max((measure(want, other).largest for other in moved), default=0.0)
    if not math.isfinite(noise):
        return Judgement(1.0, "decides nothing: rounding alone makes other elements infinite or NaN")
    if step is not None and unrounded is not None and tolerance is None:
        return _judge_steps(want, got, step, unrounded, max(noise, _limit(unrounded, computes_in)) + steps * step)
    dtype = computes_in if want.dtype == torch.float32 else want.dtype
    relative = RELATIVE_BOUND.get(dtype, 1e-3 if want.is_complex() else 0.0) if tolerance is None else tolerance
    magnitude = _unmasked_magnitude(want, got)
    bound = max(relative * magnitude, noise)
    ratio = gap.largest / bound if bound else math.inf
    if ratio <= 1:
        return Judgement(ratio)
    largest = f"{gap.largest / magnitude:.2g} of the largest value" if magnitude else f"{gap.largest:.2g}"
    return Judgement(ratio, f"an error of {largest}; rounding explains {bound / (magnitude or 1):.2g}")


def _judge_steps(
    want: torch.Tensor, got: torch.Tensor, step: float, unrounded: torch.Tensor, slack: float
) -> Judgement:
    """Judge a quantized value: an element is off if it is farther from the value before rounding than half a step."""
    low, high = float(want.min()) - step / 2, float(want.max()) + step / 2
    off = want.ne(got)
    want, got, exact = want[off].double(), got[off].double(), unrounded[off].double()
    exact = torch.where(exact.isnan(), want, exact)  # a quantized NaN is any number
    exact = exact.clamp(low, high)  # saturation moves what was expected, too
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
    """Return the error to allow before the rounding if the backend computes in lower precision than float32."""
    return RELATIVE_BOUND[computes_in] * _magnitude(unrounded) if computes_in == torch.float16 else 0.0


def _magnitude(value: torch.Tensor) -> float:
    finite = _comparable(value)
    finite = finite[finite.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0


def _unmasked_magnitude(want: torch.Tensor, got: torch.Tensor) -> float:
    """Return the largest magnitude, without the far larger values of a mask, which are equal in both."""
    largest = _magnitude(want)
    if not want.is_floating_point() or largest < MASK:
        return largest
    others = want.abs() <= largest / 1000
    small = _magnitude(want[others])
    return small if small and torch.equal(want[~others], got[~others]) else largest


def sqnr(want: torch.Tensor, got: torch.Tensor) -> float:
    """Return the SQNR in dB; minus infinity if all expected values are 0, but not the others."""
    ratio = signal_to_noise(want, got)
    return (math.inf if measure(want, got).differing == 0 else -math.inf) if math.isnan(ratio) else ratio
