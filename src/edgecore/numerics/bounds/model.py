"""The error model: values with error bounds, and how errors add up in float32 and float16."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from edgecore.ir.torch_compat import pytree

FLOAT = 2.0**-23
"""Largest relative difference of two roundings to float32: each has an error of up to 2^-24."""
FUNCTION = 16 * FLOAT
"""Error of an approximated function such as exp, relative to the larger of 1 and the result."""
HALF = 2.0**-11
"""Largest relative error of a rounding to float16. It is 1.2 times the root mean square difference of two roundings."""
TIE = 2.0**-8
"""Half-width, in quantization steps, of the interval around the middle between two steps in which a value may be
rounded to either step. It is this wide because integer kernels multiply by scales of only 8 to 24 bits.
"""
MULTIPLIER = 2.0**-15
"""Relative error of a 15-bit multiplier. Kernels with int16 results scale their 48-bit sums by such multipliers,
because `RESCALE` of TOSA 1.0 takes at most 15 bits for 48-bit values. For int8 results the error is below `TIE`.
"""
CONFIDENCE = 4.0
"""Ratio of the bound to the root mean square error in float16. The sum of n rounding errors of random sign has a
standard deviation of sqrt(n) times a single error, and in practice never exceeds 4 times this value (Higham and Mary, A
new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 2019). `HALF` is a maximum, not a standard
deviation, so the bound is really 5 to 7 standard deviations.
"""

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A bilinear function of two tensors, such as a matmul or a convolution."""


class NoBound(Exception):
    """A program has an operator without an error rule. The message is `no error bound for ...`."""


@dataclass(frozen=True)
class Bounded:
    """A tensor with a bound of its difference from a runtime's result.

    Attributes:
        value: The tensor that eager PyTorch computes.
        error: The bound: float64, in the shape of `value`. For quantized values it bounds the error of `value -
            zero_point`. For programs in float16 it is the root mean square error instead.
        step: The scale of a dequantized value, if the scale is constant; otherwise None.
        rounded_from: For quantized values, the `error` before quantization.
    """

    value: torch.Tensor
    error: torch.Tensor
    step: torch.Tensor | None = None
    rounded_from: torch.Tensor | None = None


class ErrorModel:
    """Computes how errors add up, either strictly (float32) or as root mean squares (float16).

    Args:
        half: True if the program computes in float16.
        by_row: True to choose dynamic scales for each row instead of for the whole tensor.
        steps: The number of quantization steps by which a backend's results may differ in addition to rounding, where
            the scale is constant.

    Attributes:
        has_images: True while the dynamic scale of a convolution's input is chosen; with `by_row`, an image then counts
            as a row.
        worst: The ratio of the largest possible error to `Bounded.error`.
    """

    def __init__(self, half: bool = False, by_row: bool = False, steps: int = 0) -> None:
        self.half = half
        self.by_row = by_row
        self.steps = steps
        self.has_images = False
        self.worst = CONFIDENCE if half else 1.0

    def add(self, *errors: torch.Tensor) -> torch.Tensor:
        """Add errors with different causes: their plain sum or, in float16, the root of the sum of their squares."""
        if self.half:
            total: torch.Tensor = sum(error.square() for error in errors)  # type: ignore[assignment]
            return total.sqrt()
        total = sum(errors)  # type: ignore[assignment]
        return total

    def combine(self, apply: Product, errors: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Compute the error of `apply(x, weights)`, a sum of products, that follows from the errors `errors` of x.

        In float32 all terms of the sum are assumed to have the same sign, so `weights` are replaced by their
        magnitudes. In float16 the squares of the terms add up.
        """
        if self.half:
            return apply(errors.square(), weights.square()).sqrt()
        return apply(errors, weights.abs())

    def products(self, apply: Product, left: torch.Tensor, right: torch.Tensor, terms: int) -> torch.Tensor:
        """Compute the rounding error of `apply(left, right)`, whose elements are sums of `terms` products.

        In float32 the error is at most `terms` roundings of the sum of magnitudes. In float16 each partial sum is
        rounded, with errors of random sign; the partial sums are a random walk, whose magnitude is at most the norm of
        all terms.
        """
        if self.half:
            return self.combine(apply, left, right) * (math.sqrt(terms) * HALF)
        return apply(left.abs(), right.abs()) * ((terms + 2) * FLOAT)

    def exact(self, value: Any) -> Any:
        """Return a tensor as a `Bounded` whose only error is the rounding to float16; return other types unchanged."""
        if not isinstance(value, torch.Tensor):
            return value
        return self.rounded(Bounded(value, torch.zeros_like(value, dtype=torch.float64)))

    def rounded(self, result: Bounded) -> Bounded:
        """Round a result to float16 if the program computes in float16, and add the rounding error.

        The rounding error is relative to the result, except near 0: there it depends on the distance between two
        consecutive float16 numbers, which is 2^-24.
        """
        if not self.half or result.value.dtype is not torch.float32:
            return result
        largest = torch.finfo(torch.float16).max
        value = result.value.clamp(-largest, largest).half().float()
        return Bounded(value, self.add(result.error, HALF * value.double().abs() + 2.0**-24))


def magnitude_of(bounded: Bounded) -> torch.Tensor:
    """Return the magnitudes of the value's elements in float64."""
    return bounded.value.double().abs()


def call(target: Any, args: Sequence[Any], kwargs: Any) -> torch.Tensor:
    """Call the operator with each `Bounded` argument replaced by its value."""
    plain = pytree.tree_map(
        lambda leaf: leaf.value if isinstance(leaf, Bounded) else leaf,
        (tuple(args), dict(kwargs)),
        is_leaf=lambda leaf: isinstance(leaf, Bounded),
    )
    result: torch.Tensor = target(*plain[0], **plain[1])
    return result
