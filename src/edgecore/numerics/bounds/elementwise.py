"""Error bounds of operators that move data, and of sums, products, averages and functions of single elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from edgecore.numerics.bounds.model import FLOAT, FUNCTION, Bounded, ErrorModel, call, magnitude_of


def move(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of an operator that only moves data, by applying the operator to the errors too."""
    return Bounded(call(target, args, kwargs), target(args[0].error, *args[1:], **kwargs))


def keep_error(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of a copy or a clamp by the error of its input."""
    return Bounded(call(target, args, kwargs), args[0].error)


def join(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of a concatenation."""
    return Bounded(call(target, args, kwargs), target([part.error for part in args[0]], *args[1:]))


def look_up(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of rows that an embedding looks up."""
    return Bounded(call(target, args, kwargs), target(args[0].error, args[1].value))


def function(slope: float) -> Callable[..., Bounded]:
    """Make the error rule of an elementwise function whose derivative is at most `slope` in magnitude."""

    def rule(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
        value = call(target, args, kwargs)
        slack = FUNCTION * value.double().abs().clamp(min=1.0)
        return Bounded(value, model.add(args[0].error * slope, slack))

    return rule


def fill(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of a `masked_fill` with a number: the filled elements are exact."""
    x, mask = args[:2]
    hidden = mask.value if isinstance(mask, Bounded) else mask
    return Bounded(call(target, args, kwargs), x.error.masked_fill(hidden, 0.0))


def add(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of a sum or difference of two tensors."""
    value = call(target, args, kwargs)
    errors = [arg.error for arg in args if isinstance(arg, Bounded)]
    return Bounded(value, model.add(*errors, FLOAT * value.double().abs()))


def multiply(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of a product of two tensors, or of a tensor and a number."""
    value = call(target, args, kwargs)
    a, b = (arg if isinstance(arg, Bounded) else model.exact(torch.tensor(float(arg))) for arg in args[:2])
    error = model.add(a.error * (magnitude_of(b) + b.error), magnitude_of(a) * b.error)
    return Bounded(value, model.add(error, FLOAT * value.double().abs()))


def average(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of a mean."""
    value = call(target, args, kwargs)
    terms = args[0].value.numel() // max(value.numel(), 1)

    def weighted_sum(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = target(values * weights, *args[1:], **kwargs) * terms
        return result

    size = magnitude_of(args[0])
    parts = torch.full_like(size, 1 / terms)
    moved = model.combine(weighted_sum, args[0].error, parts)
    return Bounded(value, model.add(moved, model.products(weighted_sum, size, parts, terms)))
