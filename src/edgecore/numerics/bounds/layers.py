"""Error bounds of linear layers, convolutions, matrix products, attention, softmax and layer norm."""

from __future__ import annotations

import math
from typing import Any

import torch

from edgecore.numerics.bounds.model import FLOAT, FUNCTION, HALF, Bounded, ErrorModel, NoBound, call, magnitude_of

aten = torch.ops.aten


def weighted_sum(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of a linear layer or convolution with the arguments input, weight, bias, strides and so on."""
    x, weight, bias, *rest = (*args, None)[: max(3, len(args))]
    value = call(target, args, kwargs)

    def apply(inputs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = target(inputs, weights, None, *rest)
        return result

    error = model.add(
        model.combine(apply, x.error, magnitude_of(weight) + weight.error),
        model.combine(apply, magnitude_of(x), weight.error),
        model.products(apply, magnitude_of(x), magnitude_of(weight), weight.value[0].numel()),
    )
    if bias is not None:
        shape = [-1] if target is aten.linear.default else [-1] + [1] * (value.dim() - 2)
        error = model.add(error, (bias.error + 2 * FLOAT * magnitude_of(bias)).reshape(shape))
        # An integer kernel rounds the bias to a multiple of x.step * weight.step: the bias is off by up to half of this
        # product.
        if x.step is not None and weight.step is not None:
            error = error + 0.5 * (x.step * weight.step).reshape([-1] if weight.step.dim() == 0 else shape)
    return Bounded(value, error)


def matmul(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of a product of matrices."""
    a, b = args
    error = model.add(
        model.combine(target, a.error, magnitude_of(b) + b.error),
        model.combine(target, magnitude_of(a), b.error),
        model.products(target, magnitude_of(a), magnitude_of(b), a.value.shape[-1]),
    )
    return Bounded(call(target, args, kwargs), error)


def attention(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of attention as a whole, because bounds of each of its steps would be too loose.

    The result is out = sum_j p_j v_j with p = softmax(s), s = q k^T / sqrt(width). Let a_j be the errors of the
    scores s_j, and d_j the errors of the values v_j. Then the error of the result is

        sum_j p_j exp(a_j) (v_j + d_j - out) / sum_k p_k exp(a_k).

    As sum_j p_j (v_j - out) = 0, the numerator is sum_j p_j ((exp(a_j) - 1) (v_j - out) + exp(a_j) d_j). With |a_j| <=
    e_j and E = max e_j, the error is at most

        exp(E) sum_j p_j ((exp(e_j) - 1) |v_j - out| + exp(e_j) |d_j|).

    So errors of the scores matter only as far as the values v_j differ from each other.
    """
    q, k, v = args[:3]
    if (len(args) > 3 and args[3] is not None) or kwargs.get("attn_mask") is not None:
        raise NoBound("no error bound for attention with a mask as an argument")
    keys = Bounded(k.value.transpose(-1, -2), k.error.transpose(-1, -2))
    scores = matmul(model, torch.matmul, (q, keys), {})
    factor = q.value.shape[-1] ** -0.5
    scores = model.rounded(Bounded(scores.value * factor, scores.error * factor))
    score, error = scores.value.double(), scores.error
    if (len(args) > 5 and args[5]) or kwargs.get("is_causal", False):
        above = torch.ones(score.shape[-2:], dtype=torch.bool).triu(1)
        score, error = score.masked_fill(above, -torch.inf), error.masked_fill(above, 0.0)
    weight = torch.softmax(score, -1)
    values = v.value.double()
    spread = (values.unsqueeze(-3) - (weight @ values).unsqueeze(-2)).abs()
    largest = error * model.worst
    growth = torch.exp(largest.amax(-1, keepdim=True))
    error = model.add(
        growth * model.combine(_over_keys, weight * torch.expm1(largest) / model.worst, spread),
        growth * model.combine(torch.matmul, weight * torch.exp(largest), v.error),
        model.combine(torch.matmul, _softmax_rounding(model, score, weight), values),
        model.products(torch.matmul, weight, values, score.shape[-1]),
    )
    return Bounded(call(target, args, kwargs), error)


def _over_keys(changes: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    """Multiply [..., query, key] by [..., query, key, channel], and sum over the keys."""
    return (changes.unsqueeze(-1) * spread).sum(-2)


def softmax(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of p_j = exp(x_j) / sum_k exp(x_k), where x_j has an error of at most e_j, and E = max e_k.

    p_j is largest if x_j is too large by e_j and all other x_k are too small by E, and smallest in the opposite case.
    Both cases change p_j by at most p_j (1 - p_j) (exp(e_j + E) - 1).
    """
    x, dim = args[:2]
    value = call(target, args, kwargs)
    weight, score = value.double().movedim(dim, -1), x.value.double().movedim(dim, -1)
    largest = (x.error + x.error.amax(dim, keepdim=True)).movedim(dim, -1) * model.worst
    moved = weight * (1 - weight) * torch.expm1(largest) / model.worst
    return Bounded(value, model.add(moved, _softmax_rounding(model, score, weight)).movedim(-1, dim))


def _softmax_rounding(model: ErrorModel, score: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Bound the rounding error of the weights of a softmax over the last dim.

    In float16 these values are rounded: the difference of each score from the largest score, which is the exponent; the
    exponential function and the quotient of each weight; and the sum of the exponentials.
    """
    terms = score.shape[-1]
    if not model.half:
        return weight * ((terms + 2) * FLOAT + FUNCTION) + FLOAT
    distance = torch.where(weight > 0, score.amax(-1, keepdim=True) - score, 0.0)
    return HALF * weight * (2 + math.sqrt(terms) + distance) + 2.0**-24


def layer_norm(model: ErrorModel, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of c / s with c = x - mean(x) and s = sqrt(mean(c^2) + eps).

    The error d of c is the sum of the errors of x and of the mean. For float32, the error of s is bounded by the norm
    sqrt(mean(d^2)) of d, because s is a norm, too. For float16, the error of s is mean(c d) / s to first order; the
    elements of d have random signs and partly cancel, so this value is smaller than the norm.
    """
    x, shape, weight, bias, eps = (*args, *(None,) * 5)[:5]
    dims = tuple(range(-len(shape), 0))
    values = x.value.double()
    terms = math.prod(shape)
    parts = torch.full_like(values, 1 / terms)

    def total(addends: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return (addends * weights).sum(dims, keepdim=True)

    mean_error = model.add(model.combine(total, x.error, parts), model.products(total, values, parts, terms))
    centred = values - values.mean(dims, keepdim=True)
    deviation = (centred.square().mean(dims, keepdim=True) + (1e-5 if eps is None else eps)).sqrt()
    normal = (centred / deviation).abs()
    if model.half:
        moved = model.add(x.error, mean_error, HALF * centred.abs())
        shift = model.combine(total, moved, normal * parts)
        # Add the errors of four float16 roundings: mean of squares, its root, quotient, product with the weight.
        slack = 4 * HALF * normal
    else:
        moved = x.error + mean_error + (terms + 2) * FLOAT * magnitude_of(x)
        shift = moved.square().mean(dims, keepdim=True).sqrt()
        slack = (terms + 2) * FLOAT * (1 + normal)
    smallest = (deviation - shift * model.worst).clamp(min=1e-30)
    error = model.add(moved / smallest, normal * shift / smallest, slack)
    if weight is not None:
        error = model.add(error * (magnitude_of(weight) + weight.error), normal * weight.error)
    if bias is not None:
        error = model.add(error, bias.error)
    return Bounded(call(target, args, kwargs), error)
