"""Error metrics: the difference of a tensor from the expected tensor.

An element that is NaN in both tensors, or the same infinity in both, has no error. An element that is finite in only
one of them, or infinite with opposite signs, has an infinite error; the SQNR is then minus infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from edgecore.numerics.decibels import decibels, ratio_in_decibels


@dataclass(frozen=True)
class Difference:
    """The difference of a value from the expected value.

    Attributes:
        sqnr: The SQNR in dB. Infinite for equal values; minus infinity for an infinite error, and for any error if the
            expected values are all 0.
        largest: The largest absolute error.
        relative: `largest` divided by the largest magnitude of the finite expected values.
        index: The index of the element with the largest error; None for equal values and for different shapes. Complex
            numbers have one more dim, for real and imaginary part.
        cosine: The cosine of the angle between the two values as vectors; 1 for equal values. Only elements that are
            finite in both count.
        differing: The share of elements that differ.
        step: The scale of the quantization; None if the value is not quantized.
        nans: The number of elements that are NaN where NaN was not expected.
        infinities: The number of elements that are infinite where a finite number was expected.
        sample: The number of the sample, from 0.
    """

    sqnr: float = math.inf
    largest: float = 0.0
    relative: float = 0.0
    index: tuple[int, ...] | None = None
    cosine: float = 1.0
    differing: float = 0.0
    step: float | None = None
    nans: int = 0
    infinities: int = 0
    sample: int = 0

    @property
    def steps(self) -> float | None:
        """The largest error in quantization steps; None if the value is not quantized."""
        return None if self.step is None else self.largest / self.step

    def __str__(self) -> str:
        if self.differing == 0:
            return decibels(self.sqnr)
        parts = [decibels(self.sqnr)]
        if self.steps is not None:
            amount = "1 step" if round(self.steps, 1) == 1 else f"at most {self.steps:.3g} steps"
            parts.append(f"{100 * self.differing:.2g} % by {amount}")
        else:
            parts.append(f"at most {self.largest:.2g}")
        parts += [f"{count} {name}" for count, name in ((self.nans, "NaN"), (self.infinities, "Inf")) if count]
        return ", ".join(parts)


def measure(want: torch.Tensor, got: torch.Tensor, step: float | None = None, sample: int = 0) -> Difference:
    """Return the difference of `got` from `want`. The dtypes may differ; if the shapes differ, so do all elements.

    Args:
        want: The expected value.
        got: The value to measure.
        step: The scale, if the value is quantized.
        sample: The number of the sample, for `Difference.sample`.
    """
    equal = Difference(step=step, sample=sample)
    if want.shape != got.shape:
        return replace(
            equal, sqnr=-math.inf, largest=math.inf, relative=math.inf, cosine=math.nan, differing=1.0, step=None
        )
    if torch.equal(want, got):
        return equal
    unequal_integers = want.ne(got) if want.dtype == got.dtype == torch.int64 else None
    want, got = comparable(want), comparable(got)
    error = (want - got).abs()
    if (
        unequal_integers is not None
    ):  # float64 cannot represent large int64 exactly: count each difference as at least 1
        error = error.clamp(min=1).where(unequal_integers, 0.0)
    noise = _norm(error)
    if not math.isfinite(noise):
        return _measure_scaled(want, got, equal)
    if noise == 0:  # the elements differ only as 0 and -0 do
        return equal
    signal, other = _norm(want), _norm(got)
    cosine = math.nan
    if signal and other:
        a, b = other / signal, noise / signal  # ratios of norms, not of squared norms, which could overflow
        cosine = (1 + a * a - b * b) / (2 * a)
    return replace(
        _of_errors(equal, error, magnitude(want)),
        sqnr=ratio_in_decibels(signal, noise),
        cosine=cosine,
        differing=int(error.count_nonzero()) / error.numel(),
    )


def _of_errors(equal: Difference, error: torch.Tensor, scale: float) -> Difference:
    """Fill in the largest absolute error, its index, and its ratio to the largest expected magnitude `scale`."""
    position = error.argmax()
    largest = float(error.flatten()[position])
    index = tuple(int(part) for part in torch.unravel_index(position, error.shape))
    return replace(equal, largest=largest, relative=largest / scale if scale else math.inf, index=index)


def _measure_scaled(want: torch.Tensor, got: torch.Tensor, equal: Difference) -> Difference:
    """Measure values that have infinite or NaN elements, or whose difference or squared difference overflows."""
    want, got = want.double(), got.double()
    same = _same(want, got)
    finite = want.isfinite() & got.isfinite()
    if bool(same.all()):
        return equal
    scale = max(magnitude(want[finite]), magnitude(got[finite])) or 1.0
    part = measure(want[finite] / scale, got[finite] / scale)
    worst = _of_errors(equal, errors(want / scale, got / scale), magnitude(want) / scale)
    return replace(
        worst,
        sqnr=part.sqnr if math.isfinite(worst.largest) else -math.inf,
        largest=worst.largest * scale,
        cosine=part.cosine,
        differing=int((~same).sum()) / want.numel(),
        nans=int((got.isnan() & ~want.isnan()).sum()),
        infinities=int((got.isinf() & want.isfinite()).sum()),
    )


def errors(want: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """Return the absolute error of each element, in float64; the tensors are real and of one shape."""
    want, got = want.double(), got.double()
    return (want - got).abs().masked_fill(_same(want, got), 0.0).nan_to_num(math.inf, math.inf)


def has_signal(value: torch.Tensor) -> bool:
    """Return True if an element is neither 0 nor infinite nor NaN; without such an element an SQNR means nothing."""
    return bool((value.isfinite() & value.ne(0)).any())


def magnitude(value: torch.Tensor) -> float:
    """Return the largest magnitude of the finite elements; 0 if there are none."""
    value = comparable(value)
    largest = float(value.abs().max()) if value.numel() else 0.0
    if not math.isfinite(largest):
        largest = float(value.nan_to_num(0.0, 0.0, 0.0).abs().max())
    return largest


def comparable(value: torch.Tensor) -> torch.Tensor:
    """Convert to real float32 or float64: split complex numbers into two parts, and keep integers exact if possible."""
    value = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    if value.dtype in (torch.float32, torch.float64):
        return value.detach()
    return value.float() if value.dtype in (torch.float16, torch.bfloat16, torch.int8, torch.uint8) else value.double()


def _same(want: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    return want.eq(got) | (want.isnan() & got.isnan())


def _norm(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))
