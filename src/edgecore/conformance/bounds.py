"""Error bounds for quantized programs: run the program in eager PyTorch, and compute an error bound with each value.

The bound is the largest difference that two correct implementations may have. They differ only where they round.

A sum of K products in floating point has an error of up to K units in the last place of its terms (Higham, Accuracy and
Stability of Numerical Algorithms, section 3.1). This error is tiny by itself. But quantization rounds the sum to a
step, a multiple of the scale. If the sum is nearly in the middle between two steps, implementations may round it to
different steps, and then the results differ by a whole step. So each quantization is computed at both ends of the
interval that contains its input: nearly always both ends give the same step, and the error is 0; otherwise the error is
one step. The following layers multiply errors by the magnitudes of their weights.

In float32 the bounds are strict: the errors of all terms of a sum are assumed to have the same sign. In float16 strict
bounds would be larger than the results after three layers. There an error is a root mean square instead: rounding errors
are assumed to be independent and of random sign, so the squares of the errors of a sum's terms add up. This also holds for
terms that share an error, such as the error of a layer norm's mean, because they are multiplied by the random weights of
the suite's networks, whose signs differ. The bound of a result is then `CONFIDENCE` times its error.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch.export import ExportedProgram
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

from edgecore.conformance.check import Skipped
from edgecore.quantize.rounding import choose_by_row, feeds_convolution

aten = torch.ops.aten
library = torch.ops.quantized_decomposed

FLOAT = 2.0**-23
"""Maximum relative difference of two roundings to float32: each has an error of up to 2^-24."""
FUNCTION = 16 * FLOAT
"""Error of an approximated function such as exp, relative to the larger of 1 and the result."""
HALF = 2.0**-11
"""Maximum relative error of a rounding to float16. It is 1.2 times the root mean square of the difference of two roundings."""
TIE = 2.0**-8
"""Half-width, in steps, of the interval around the middle between two steps in which a value may be rounded to either step:
integer kernels multiply by scales that have only 8 to 24 bits.
"""
MULTIPLIER = 2.0**-15
"""Relative error of a multiplier of 15 bits. Kernels with int16 results scale their sums by such multipliers: the sums have
48 bits, and `RESCALE` of TOSA 1.0 multiplies these by no more. For int8 results the error is below `TIE`.
"""
CONFIDENCE = 4.0
"""Ratio of the bound to the root mean square error in float16. The sum of n rounding errors of random sign has a standard
deviation of sqrt(n) times that of one error, and in practice never exceeds 4 times this value (Higham and Mary, A new
approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 2019). As `HALF` is a maximum, not a standard
deviation, the ratio is really 5 to 7 standard deviations.
"""


Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A bilinear function of two tensors, such as a matmul or a convolution."""


@dataclass(frozen=True)
class Bounded:
    """A tensor, and the bound of the difference from a runtime's result.

    Attributes:
        value: The tensor that eager PyTorch computes.
        error: The bound, float64 of the same shape. For quantized values it bounds the difference of
            `value - zero_point`. For programs in float16, `_Bounds` stores the root mean square error here instead.
        step: For a dequantized value, its scale if the scale is a constant; otherwise None.
        rounded_from: For quantized values, the `error` of the values before quantization.
    """

    value: torch.Tensor
    error: torch.Tensor
    step: torch.Tensor | None = None
    rounded_from: torch.Tensor | None = None


def bounded_eager(
    program: ExportedProgram,
    inputs: Sequence[Any],
    computes_in: str = "float32",
    *,
    by_row: bool = False,
    steps: int = 0,
) -> list[Bounded]:
    """Compute the outputs of a quantized program with their bounds.

    Args:
        program: The quantized program.
        inputs: Its inputs, in order.
        computes_in: The dtype to which floating-point results are rounded.
        by_row: True to choose dynamic scales for each row (along the last dim) instead of for the tensor.
        steps: Steps by which a computed result that is quantized with a constant scale may differ, beside the rounding.

    Raises:
        Skipped: This module has no rule for an operator of the program.
    """
    module = program.module()
    assert isinstance(module, GraphModule)
    run = _Bounds(module, computes_in == "float16", by_row, steps)
    with torch.no_grad():
        results = run.run(*inputs)
    leaves = pytree.tree_leaves(results, is_leaf=lambda leaf: isinstance(leaf, Bounded))
    return [Bounded(leaf.value, leaf.error * run.worst) for leaf in leaves if isinstance(leaf, Bounded)]


class _Bounds(Interpreter):
    """Interpreter of a program whose values are `Bounded` instead of tensors."""

    def __init__(self, module: GraphModule, half: bool, by_row: bool, steps: int) -> None:
        super().__init__(module)
        self.half = half
        self.by_row = by_row
        self.steps = steps
        self.has_images = False
        """True while the scale of a convolution's input is chosen."""
        self.worst = CONFIDENCE if half else 1.0
        """Factor by which an `error` is multiplied to get the maximum error."""

    def run_node(self, n: Node) -> Any:
        self.has_images = n.target is library.choose_qparams.tensor and feeds_convolution(n)
        return super().run_node(n)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.exact(super().placeholder(target, args, kwargs))

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.exact(super().get_attr(target, args, kwargs))

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        return None  # torch.export has inserted this module, which only checks the inputs

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        flat = [*args, *kwargs.values()]
        if target is operator.getitem or not any(isinstance(leaf, Bounded) for leaf in pytree.tree_leaves(flat)):
            return target(*args, **kwargs)
        if target is aten.sym_size.int:
            return target(args[0].value, args[1])
        rule = _RULES.get(target)
        if rule is None:
            raise Skipped(f"the suite has no error bound for {target}")
        result = rule(self, target, args, kwargs)
        needs_rounding = isinstance(result, Bounded) and rule not in _EXACT
        return self.rounded(result) if needs_rounding else result

    def add(self, *errors: torch.Tensor) -> torch.Tensor:
        """Add errors with different causes: their sum, or in float16 the root of the sum of their squares."""
        if self.half:
            total: torch.Tensor = sum(error.square() for error in errors)  # type: ignore[assignment]
            return total.sqrt()
        total = sum(errors)  # type: ignore[assignment]
        return total

    def combine(self, apply: Product, errors: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Compute the error that errors of x cause in `apply(x, weights)`, a sum of products of x and weights.

        In float32 all terms of the sum are assumed to have the same sign, so the weights are replaced by their
        magnitudes. In float16 the squares of the terms are added.
        """
        if self.half:
            return apply(errors.square(), weights.square()).sqrt()
        return apply(errors, weights.abs())

    def products(self, apply: Product, left: torch.Tensor, right: torch.Tensor, terms: int) -> torch.Tensor:
        """Compute the rounding error of `apply(left, right)`, whose elements are sums of `terms` products.

        In float32 the error is at most `terms` roundings of the sum of magnitudes. In float16 each partial sum is rounded,
        with errors of random sign; the partial sums are a random walk, whose magnitude is at most the norm of all terms.
        """
        if self.half:
            return self.combine(apply, left, right) * (math.sqrt(terms) * HALF)
        return apply(left.abs(), right.abs()) * ((terms + 2) * FLOAT)

    def exact(self, value: Any) -> Any:
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


def _magnitude(bounded: Bounded) -> torch.Tensor:
    return bounded.value.double().abs()


def _call(target: Any, args: Sequence[Any], kwargs: Any) -> torch.Tensor:
    """Call the operator on the values of all `Bounded` arguments."""
    plain = pytree.tree_map(
        lambda leaf: leaf.value if isinstance(leaf, Bounded) else leaf,
        (tuple(args), dict(kwargs)),
        is_leaf=lambda leaf: isinstance(leaf, Bounded),
    )
    result: torch.Tensor = target(*plain[0], **plain[1])
    return result


def _move(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of an operator that only moves data, by applying the operator to the errors too."""
    return Bounded(_call(target, args, kwargs), target(args[0].error, *args[1:], **kwargs))


def _copy(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    return Bounded(_call(target, args, kwargs), args[0].error)


def _join(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    return Bounded(_call(target, args, kwargs), target([part.error for part in args[0]], *args[1:]))


def _lookup(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    return Bounded(_call(target, args, kwargs), target(args[0].error, args[1].value))


def _weighted(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of a linear layer or convolution, whose arguments are input, weight, bias and, say, strides."""
    x, weight, bias, *rest = (*args, None)[: max(3, len(args))]
    value = _call(target, args, kwargs)

    def apply(inputs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = target(inputs, weights, None, *rest)
        return result

    error = run.add(
        run.combine(apply, x.error, _magnitude(weight) + weight.error),
        run.combine(apply, _magnitude(x), weight.error),
        run.products(apply, _magnitude(x), _magnitude(weight), weight.value[0].numel()),
    )
    if bias is not None:
        shape = [-1] if target is aten.linear.default else [-1] + [1] * (value.dim() - 2)
        error = run.add(error, (bias.error + 2 * FLOAT * _magnitude(bias)).reshape(shape))
        if x.step is not None and weight.step is not None:  # an integer kernel rounds the bias to x.step * weight.step
            error = error + 0.5 * (x.step * weight.step).reshape([-1] if weight.step.dim() == 0 else shape)
    return Bounded(value, error)


def _matmul(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    a, b = args
    error = run.add(
        run.combine(target, a.error, _magnitude(b) + b.error),
        run.combine(target, _magnitude(a), b.error),
        run.products(target, _magnitude(a), _magnitude(b), a.value.shape[-1]),
    )
    return Bounded(_call(target, args, kwargs), error)


def _attention(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of attention as a whole, because bounds of each of its steps would be too loose.

    The result is out = sum_j p_j v_j with p = softmax(s), s = q k^T / sqrt(width). Let a_j be the errors of the
    scores s_j, and d_j those of the values v_j. Then the error of the result is

        sum_j p_j exp(a_j) (v_j + d_j - out) / sum_k p_k exp(a_k).

    As sum_j p_j (v_j - out) = 0, the numerator is sum_j p_j ((exp(a_j) - 1) (v_j - out) + exp(a_j) d_j). With |a_j| <= e_j
    and E = max e_j, the error is at most

        exp(E) sum_j p_j ((exp(e_j) - 1) |v_j - out| + exp(e_j) |d_j|).

    So errors of the scores matter only as far as the values v_j differ from each other.
    """
    q, k, v = args[:3]
    if (len(args) > 3 and args[3] is not None) or kwargs.get("attn_mask") is not None:
        raise Skipped("the suite has no error bound for attention with a mask as an argument")
    keys = Bounded(k.value.transpose(-1, -2), k.error.transpose(-1, -2))
    scores = _matmul(run, torch.matmul, (q, keys), {})
    factor = q.value.shape[-1] ** -0.5
    scores = run.rounded(Bounded(scores.value * factor, scores.error * factor))
    score, error = scores.value.double(), scores.error
    if (len(args) > 5 and args[5]) or kwargs.get("is_causal", False):
        above = torch.ones(score.shape[-2:], dtype=torch.bool).triu(1)
        score, error = score.masked_fill(above, -torch.inf), error.masked_fill(above, 0.0)
    weight = torch.softmax(score, -1)
    values = v.value.double()
    spread = (values.unsqueeze(-3) - (weight @ values).unsqueeze(-2)).abs()
    largest = error * run.worst
    growth = torch.exp(largest.amax(-1, keepdim=True))
    error = run.add(
        growth * run.combine(_over_keys, weight * torch.expm1(largest) / run.worst, spread),
        growth * run.combine(torch.matmul, weight * torch.exp(largest), v.error),
        run.combine(torch.matmul, _softmax_rounding(run, score, weight), values),
        run.products(torch.matmul, weight, values, score.shape[-1]),
    )
    return Bounded(_call(target, args, kwargs), error)


def _over_keys(changes: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    """Multiply [..., query, key] by [..., query, key, channel], and sum over the keys."""
    return (changes.unsqueeze(-1) * spread).sum(-2)


def _softmax(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of p_j = exp(x_j) / sum_k exp(x_k), where x_j has an error of at most e_j, and E = max e_k.

    p_j is largest if x_j is too large by e_j and all other x_k are too small by E, and smallest in the opposite case. Both
    cases change p_j by at most p_j (1 - p_j) (exp(e_j + E) - 1).
    """
    x, dim = args[:2]
    value = _call(target, args, kwargs)
    weight, score = value.double().movedim(dim, -1), x.value.double().movedim(dim, -1)
    largest = (x.error + x.error.amax(dim, keepdim=True)).movedim(dim, -1) * run.worst
    moved = weight * (1 - weight) * torch.expm1(largest) / run.worst
    return Bounded(value, run.add(moved, _softmax_rounding(run, score, weight)).movedim(-1, dim))


def _softmax_rounding(run: _Bounds, score: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Bound the rounding error of the weights of a softmax over the last dim.

    In float16 these values are rounded: the difference of each score from the largest score, which is the exponent; the
    exponential function and the quotient of each weight; and the sum.
    """
    terms = score.shape[-1]
    if not run.half:
        return weight * ((terms + 2) * FLOAT + FUNCTION) + FLOAT
    distance = torch.where(weight > 0, score.amax(-1, keepdim=True) - score, 0.0)
    return HALF * weight * (2 + math.sqrt(terms) + distance) + 2.0**-24


def _layer_norm(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of c / s with c = x - mean(x) and s = sqrt(mean(c^2) + eps).

    The error d of c is the sum of the errors of x and of the mean. For float32, the error of s is bounded by the norm
    of d, sqrt(mean(d^2)), because s is a norm too. For float16, the error of s is mean(c d) / s to first order; as the
    elements of d have random signs, they partly cancel, which gives a smaller value than the norm.
    """
    x, shape, weight, bias, eps = (*args, *(None,) * 5)[:5]
    dims = tuple(range(-len(shape), 0))
    values = x.value.double()
    terms = math.prod(shape)
    parts = torch.full_like(values, 1 / terms)

    def total(addends: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return (addends * weights).sum(dims, keepdim=True)

    mean_error = run.add(run.combine(total, x.error, parts), run.products(total, values, parts, terms))
    centred = values - values.mean(dims, keepdim=True)
    deviation = (centred.square().mean(dims, keepdim=True) + (1e-5 if eps is None else eps)).sqrt()
    normal = (centred / deviation).abs()
    if run.half:
        moved = run.add(x.error, mean_error, HALF * centred.abs())
        shift = run.combine(total, moved, normal * parts)
        # Four roundings: the mean of squares, its root, the quotient, the product with the weight.
        slack = 4 * HALF * normal
    else:
        moved = x.error + mean_error + (terms + 2) * FLOAT * _magnitude(x)
        shift = moved.square().mean(dims, keepdim=True).sqrt()
        slack = (terms + 2) * FLOAT * (1 + normal)
    smallest = (deviation - shift * run.worst).clamp(min=1e-30)
    error = run.add(moved / smallest, normal * shift / smallest, slack)
    if weight is not None:
        error = run.add(error * (_magnitude(weight) + weight.error), normal * weight.error)
    if bias is not None:
        error = run.add(error, bias.error)
    return Bounded(_call(target, args, kwargs), error)


def _function(slope: float) -> Callable[..., Bounded]:
    """Make the rule of an elementwise function whose derivative is at most `slope` in magnitude."""

    def rule(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
        value = _call(target, args, kwargs)
        slack = FUNCTION * value.double().abs().clamp(min=1.0)
        return Bounded(value, run.add(args[0].error * slope, slack))

    return rule


def _clamp(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    return Bounded(_call(target, args, kwargs), args[0].error)


def _fill(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of `masked_fill` by a number: the elements that it sets are exact."""
    x, mask = args[:2]
    hidden = mask.value if isinstance(mask, Bounded) else mask
    return Bounded(_call(target, args, kwargs), x.error.masked_fill(hidden, 0.0))


def _sum(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    value = _call(target, args, kwargs)
    errors = [arg.error for arg in args if isinstance(arg, Bounded)]
    return Bounded(value, run.add(*errors, FLOAT * value.double().abs()))


def _product(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    value = _call(target, args, kwargs)
    a, b = (arg if isinstance(arg, Bounded) else run.exact(torch.tensor(float(arg))) for arg in args[:2])
    error = run.add(a.error * (_magnitude(b) + b.error), _magnitude(a) * b.error)
    return Bounded(value, run.add(error, FLOAT * value.double().abs()))


def _mean(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    value = _call(target, args, kwargs)
    terms = args[0].value.numel() // max(value.numel(), 1)

    def weighted_sum(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = target(values * weights, *args[1:], **kwargs) * terms
        return result

    size = _magnitude(args[0])
    parts = torch.full_like(size, 1 / terms)
    moved = run.combine(weighted_sum, args[0].error, parts)
    return Bounded(value, run.add(moved, run.products(weighted_sum, size, parts, terms)))


def _value_and_error(parameter: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the float64 values and the errors of a scale or zero point, which is a `Bounded` or an exact number."""
    if isinstance(parameter, Bounded):
        return parameter.value.double(), parameter.error
    return torch.tensor(float(parameter), dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)


def _broadcastable(parameters: torch.Tensor, value: torch.Tensor, target: Any, axis: int) -> torch.Tensor:
    """Reshape scales or zero points of channels, groups or rows to a shape that broadcasts to that of `value`."""
    name = target._schema.name
    if name.endswith("per_channel"):
        return parameters.reshape([-1 if dim == axis % value.dim() else 1 for dim in range(value.dim())])
    if name.endswith("per_channel_group"):
        return parameters.repeat_interleave(value.shape[-1] // parameters.shape[-1], -1)
    return parameters


def _quantize(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    if run.half:
        raise Skipped("the suite has no error bound for quantizing float16 values")
    x, scale, zero = args[:3]
    if scale_is_by_row(target, scale):
        target = library.quantize_per_token.default
    value = _call(target, args, kwargs)
    axis = args[3] if target._schema.name.endswith("per_channel") else 0
    low, high = args[-3:-1]
    step, step_error = (_broadcastable(part, value, target, axis) for part in _value_and_error(scale))
    zero_point, zero_error = (_broadcastable(part, value, target, axis) for part in _value_and_error(zero))
    exact = x.value.double() / step
    slack = MULTIPLIER if high - low > 255 else 2 * FLOAT
    radius = x.error / step + exact.abs() * (step_error / step + slack) + TIE
    quantized = value.double()
    ends = [(exact + sign * radius).round() + zero_point for sign in (-1, 1)]
    if not bool(zero_error.any()):
        ends = [end.clamp(low, high) for end in ends]
    error = torch.maximum(quantized - ends[0], ends[1] - quantized)
    # The backend may compute another zero point at run time. As zero points are rounded, its quantized range may end up
    # to half a step before the min or max of the row. Values near these ends may then be clamped, which adds one step.
    at_end = (zero_error > 0) & (torch.minimum(quantized - low, high - quantized) <= 1 + zero_error)
    error = error + at_end.double()
    if bool(x.error.any()) and not bool(step_error.any()):  # a computed value, not an input, with a constant scale
        error = error + run.steps
    return Bounded(value, error, rounded_from=x.error)


def _dequantize(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound the error of (q - zero point) * scale.

    If the scale is computed at run time, eager PyTorch and the backend may compute different scales. Then q cannot be
    compared, but each of the two results differs from the value x before quantization by at most half of its own scale.
    This also holds where x is clamped, because rounding the zero point moves the ends of the range by at most half a
    scale. So the bound is the error of x plus one scale, with a margin for ties of rounding and for the error of the
    scale.
    """
    q, scale = args[:2]
    if scale_is_by_row(target, scale):
        target, args, kwargs = library.dequantize_per_token.default, (*args, torch.float32), {}
    value = _call(target, args, kwargs)
    axis = args[3] if target._schema.name.endswith("per_channel") else 0
    step, step_error = (_broadcastable(part, value, target, axis) for part in _value_and_error(scale))
    steps = value.double() / step
    error = q.error * (step + step_error) + steps.abs() * step_error
    if q.rounded_from is not None and bool(step_error.any()):
        error = torch.minimum(error, q.rounded_from + (1 + 2 * TIE) * step + step_error)
    error = error + FLOAT * (value.double().abs() + error)
    is_constant = not isinstance(scale, Bounded) or not bool(scale.error.any())
    return Bounded(value, error, _value_and_error(scale)[0] if is_constant else None)


def scale_is_by_row(target: Any, scale: Any) -> bool:
    """Return True if an operator with one scale per tensor got a scale for each row.

    The program contains `choose_qparams` and quantize operators for one scale per tensor. To bound the error of a
    backend that chooses a scale for each row instead (`by_row`), the rule of `choose_qparams` returns scales for each
    row.
    """
    per_tensor = (library.quantize_per_tensor.tensor, library.dequantize_per_tensor.tensor)
    return target in per_tensor and isinstance(scale, Bounded) and scale.value.numel() > 1


def _choose(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Bounded, Bounded]:
    """Bound the errors of a scale and a zero point that are computed at run time, for each row or for the whole tensor.

    The scale is (max - min) / (q_max - q_min), and the zero point is q_min - min / scale. 0 always lies within the range
    of `min` and `max`. If they are computed for each row, q_min is -128 and q_max is 127.
    """
    x = args[0]
    by_row = run.by_row or target is library.choose_qparams_per_token_asymmetric.default
    if by_row:
        scale, zero = choose_by_row(x.value, torch.int8, run.has_images)
        dims = tuple(range(1, x.value.dim())) if run.has_images else (-1,)
        radius = x.error.amax(dims, keepdim=True)
        low = x.value.amin(dims, keepdim=True).double().clamp(max=0)
        q_min, q_max = -128, 127
    else:
        scale, zero = target(x.value, *args[1:], **kwargs)
        radius, low = x.error.amax(), x.value.amin().double().clamp(max=0)
        q_min, q_max = args[1:3]
    steps = q_max - q_min
    step = scale.double()
    step_error = 2 * radius / steps + step * 2 * FLOAT
    exact = q_min - low / step
    exact_error = radius / step + (low / step).abs() * (step_error / step + 2 * FLOAT) + TIE
    zero_error = (exact + exact_error).round() - (exact - exact_error).round()
    return Bounded(scale, step_error), Bounded(zero, zero_error.reshape(zero.shape))


_EXACT = (_move, _join, _lookup, _fill)
"""Rules of operators that only copy values, so that their results need no rounding to float16."""

_DATA_MOVEMENT = (
    "view.default", "reshape.default", "flatten.using_ints", "permute.default", "transpose.int", "t.default",
    "unsqueeze.default", "squeeze.dim", "select.int", "slice.Tensor", "expand.default", "clone.default",
    "contiguous.default", "alias.default", "detach.default", "dropout.default", "unflatten.int",
)  # fmt: skip


def _operator(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(aten, base), overload)


_RULES: dict[Any, Callable[..., Any]] = {
    **{_operator(name): _move for name in _DATA_MOVEMENT},
    aten.to.dtype: _copy, aten._to_copy.default: _copy,
    aten.cat.default: _join,
    aten.embedding.default: _lookup,
    aten.linear.default: _weighted, aten.conv1d.default: _weighted, aten.conv2d.default: _weighted,
    aten.conv2d.padding: _weighted, aten.convolution.default: _weighted,
    aten.matmul.default: _matmul, aten.bmm.default: _matmul, aten.mm.default: _matmul,
    aten.scaled_dot_product_attention.default: _attention,
    aten.softmax.int: _softmax, aten._softmax.default: _softmax,
    aten.layer_norm.default: _layer_norm,
    aten.gelu.default: _function(1.13), aten.sigmoid.default: _function(0.25), aten.tanh.default: _function(1.0),
    aten.silu.default: _function(1.1), aten.hardswish.default: _function(1.5), aten.hardswish_.default: _function(1.5),
    aten.relu.default: _clamp, aten.relu_.default: _clamp, aten.hardtanh.default: _clamp, aten.clamp.default: _clamp,
    aten.masked_fill.Scalar: _fill,
    aten.add.Tensor: _sum, aten.sub.Tensor: _sum, aten.mul.Tensor: _product,
    aten.mean.dim: _mean, aten.adaptive_avg_pool2d.default: _mean,
    library.quantize_per_tensor.default: _quantize, library.quantize_per_tensor.tensor: _quantize,
    library.quantize_per_channel.default: _quantize, library.quantize_per_token.default: _quantize,
    library.dequantize_per_tensor.default: _dequantize, library.dequantize_per_tensor.tensor: _dequantize,
    library.dequantize_per_channel.default: _dequantize, library.dequantize_per_token.default: _dequantize,
    library.dequantize_per_channel_group.default: _dequantize,
    library.choose_qparams.tensor: _choose, library.choose_qparams_per_token_asymmetric.default: _choose,
}  # fmt: skip
