"""Bounds on what a runtime's results may differ from quantized eager: a quantized program in torch, with an error beside
each value.

Exact arithmetic would give equal results. Two implementations differ where they round: a sum of K products in floating
point is off by K units of its terms' magnitudes (Higham, Accuracy and Stability, section 3.1), which alone is nothing to
see. But a value that lies that close to the middle between two steps may be rounded to either, and then it is off by one
step. So each rounding is computed at both ends of the interval that its input may lie in: nearly always both give the
same step and the error is 0, else it is one step. Layers multiply errors by the magnitude of their weights.

In float32 the bounds are hard: errors of all terms of a sum are taken to have the sign that makes the sum worst. In
float16 such bounds exceed the results themselves after three layers, so there an error is a root mean square: roundings
are independent and of either sign, and the errors of a sum's terms add up in squares. Terms that share an error (that of
a layer norm's mean, say) count as independent too: they are multiplied by the random weights of the suite's networks,
whose signs differ. A result may be off by `CONFIDENCE` times its error.
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
from torch.fx import GraphModule, Interpreter
from torch.utils import _pytree as pytree

from edgecore.conformance.check import Skipped

aten = torch.ops.aten
library = torch.ops.quantized_decomposed

FLOAT = 2.0**-23
"""Twice the relative error of a rounding to float32: both sides round."""
FUNCTION = 16 * FLOAT
"""Of an exponential function or another one that is approximated, relative to the larger of 1 and its result."""
HALF = 2.0**-11
"""The relative error of a rounding to float16: 1.2 times the root mean square of the difference where both sides round."""
TIE = 2.0**-8
"""How near to the middle between two steps, in steps, a value may be rounded to either: integer kernels multiply
by scales of 8 to 24 bits."""
CONFIDENCE = 4.0
"""n roundings of independent signs add up to sqrt(n) of one; to more than four times that never (Higham and Mary, A new
approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 2019). `HALF` is an upper bound of each rounding
on either side, so that this is 5 to 7 standard deviations."""


Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Bounded:
    """A tensor, and how far that of a runtime may be from it, float64 of the same shape.

    In float16 `error` is a root mean square while the program runs. Of quantized values `error` is that of the difference
    from the zero point. `step` is the scale with which it was rounded, where that is known when compiling. `rounded_from`
    is the error of the values that quantized values were rounded from.
    """

    value: torch.Tensor
    error: torch.Tensor
    step: torch.Tensor | None = None
    rounded_from: torch.Tensor | None = None


def bounded_eager(
    program: ExportedProgram, inputs: Sequence[Any], computes_in: str = "float32", *, by_row: bool = False
) -> list[Bounded]:
    """The outputs of a quantized program for `inputs` (in order), with their bounds.

    `computes_in`, `by_row`: as in `edgecore.quantize.rounding.quantized_eager`.

    Raises:
        Skipped: An operator of the program has no rule here.
    """
    module = program.module()
    assert isinstance(module, GraphModule)
    run = _Bounds(module, computes_in == "float16", by_row)
    with torch.no_grad():
        made = run.run(*inputs)
    leaves = pytree.tree_leaves(made, is_leaf=lambda leaf: isinstance(leaf, Bounded))
    return [Bounded(leaf.value, leaf.error * run.worst) for leaf in leaves if isinstance(leaf, Bounded)]


class _Bounds(Interpreter):
    """Its values are `Bounded` where eager has tensors."""

    def __init__(self, module: GraphModule, half: bool, by_row: bool) -> None:
        super().__init__(module)
        self.half = half
        self.by_row = by_row
        self.worst = CONFIDENCE if half else 1.0
        """What an error is to be multiplied by for the largest that is possible."""

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.exact(super().placeholder(target, args, kwargs))

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.exact(super().get_attr(target, args, kwargs))

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        return None  # export's checks of its inputs

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        flat = [*args, *kwargs.values()]
        if target is operator.getitem or not any(isinstance(one, Bounded) for one in pytree.tree_leaves(flat)):
            return target(*args, **kwargs)
        if target is aten.sym_size.int:
            return target(args[0].value, args[1])
        rule = _RULES.get(target)
        if rule is None:
            raise Skipped(f"the suite has no error bound for {target}")
        made = rule(self, target, args, kwargs)
        is_new = isinstance(made, Bounded) and rule not in _EXACT
        return self.rounded(made) if is_new else made

    def add(self, *errors: torch.Tensor) -> torch.Tensor:
        """Add up errors of several causes: their sum, or in float16 the root of the sum of their squares."""
        if self.half:
            total: torch.Tensor = sum(error.square() for error in errors)  # type: ignore[assignment]
            return total.sqrt()
        total = sum(errors)  # type: ignore[assignment]
        return total

    def combine(self, apply: Product, errors: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Compute the error of sums that `apply` makes of values with these errors times weights."""
        if self.half:
            return apply(errors.square(), weights.square()).sqrt()
        return apply(errors, weights.abs())

    def products(self, apply: Product, one: torch.Tensor, other: torch.Tensor, terms: int) -> torch.Tensor:
        """Compute the error of rounding sums of `terms` products of two tensors that `apply` adds up.

        In float32 at most `terms` roundings of the sum of magnitudes. In float16 each of the partial sums, which are at most
        as large as the norm of all terms (a random walk), is rounded with an error of either sign.
        """
        if self.half:
            return self.combine(apply, one, other) * (math.sqrt(terms) * HALF)
        return apply(one.abs(), other.abs()) * ((terms + 2) * FLOAT)

    def exact(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return self.rounded(Bounded(value, torch.zeros_like(value, dtype=torch.float64)))

    def rounded(self, made: Bounded) -> Bounded:
        """Round a result to float16 where the program computes in it. 2^-24 is its smallest number."""
        if not self.half or made.value.dtype is not torch.float32:
            return made
        largest = torch.finfo(torch.float16).max
        value = made.value.clamp(-largest, largest).half().float()
        return Bounded(value, self.add(made.error, HALF * value.double().abs() + 2.0**-24))


def _magnitude(one: Bounded) -> torch.Tensor:
    return one.value.double().abs()


def _call(target: Any, args: Sequence[Any], kwargs: Any) -> torch.Tensor:
    """The operator on the values."""
    plain = pytree.tree_map(
        lambda one: one.value if isinstance(one, Bounded) else one,
        (tuple(args), dict(kwargs)),
        is_leaf=lambda one: isinstance(one, Bounded),
    )
    made: torch.Tensor = target(*plain[0], **plain[1])
    return made


def _move(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """It computes nothing: errors move with values."""
    return Bounded(_call(target, args, kwargs), target(args[0].error, *args[1:], **kwargs))


def _copy(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    return Bounded(_call(target, args, kwargs), args[0].error)


def _join(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    return Bounded(_call(target, args, kwargs), target([one.error for one in args[0]], *args[1:]))


def _lookup(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    return Bounded(_call(target, args, kwargs), target(args[0].error, args[1].value))


def _weighted(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Linear layers and convolutions: of input, weight, bias and numbers."""
    x, weight, bias, *rest = (*args, None)[: max(3, len(args))]
    value = _call(target, args, kwargs)

    def apply(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = target(one, other, None, *rest)
        return made

    size, sure = _magnitude(x), _magnitude(weight)
    error = run.add(
        run.combine(apply, x.error, sure + weight.error),
        run.combine(apply, size, weight.error),
        run.products(apply, size, sure, weight.value[0].numel()),
    )
    if bias is not None:
        shape = [-1] if target is aten.linear.default else [-1] + [1] * (value.dim() - 2)
        error = run.add(error, (bias.error + 2 * FLOAT * _magnitude(bias)).reshape(shape))
        if x.step is not None and weight.step is not None:  # an integer kernel rounds the bias to its own step
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
    """Bound out = sum_j p_j v_j with p = softmax(s), s = q k^T / sqrt(width), for the whole sum rather than each p_j.

    With errors a_j of the scores and d_j of the values the result is off by

        sum_j p_j exp(a_j) (v_j + d_j - out) / sum_k p_k exp(a_k).

    Since sum_j p_j (v_j - out) = 0, the numerator is sum_j p_j ((exp(a_j) - 1) (v_j - out) + exp(a_j) d_j). With |a_j| <= e_j
    and E = max e_j that is at most

        exp(E) sum_j p_j ((exp(e_j) - 1) |v_j - out| + exp(e_j) |d_j|):

    the changes of the weights cancel but for the spread of the values.
    """
    q, k, v = args[:3]
    if (len(args) > 3 and args[3] is not None) or kwargs.get("attn_mask") is not None:
        raise Skipped("the suite has no error bound for attention with a mask of its own")
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
    """Add up products of [..., query, key] and [..., query, key, channel]."""
    return (changes.unsqueeze(-1) * spread).sum(-2)


def _softmax(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound p_j = exp(x_j) / sum_k exp(x_k) with errors of x_j of at most e_j, and E = max e_k.

    p_j is largest where x_j is too large by e_j and all others too small by E, and smallest where it is the other way. Both
    change it by at most p_j (1 - p_j) (exp(e_j + E) - 1).
    """
    x, dim = args[:2]
    value = _call(target, args, kwargs)
    weight, score = value.double().movedim(dim, -1), x.value.double().movedim(dim, -1)
    largest = (x.error + x.error.amax(dim, keepdim=True)).movedim(dim, -1) * run.worst
    moved = weight * (1 - weight) * torch.expm1(largest) / run.worst
    return Bounded(value, run.add(moved, _softmax_rounding(run, score, weight)).movedim(-1, dim))


def _softmax_rounding(run: _Bounds, score: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Bound what rounding changes in the weights of a softmax over the last dim.

    In float16 the exponent is off by the rounding of its distance from the largest, each weight by those of the
    exponential function and of the quotient, and all by that of the sum.
    """
    terms = score.shape[-1]
    if not run.half:
        return weight * ((terms + 2) * FLOAT + FUNCTION) + FLOAT
    distance = torch.where(weight > 0, score.amax(-1, keepdim=True) - score, 0.0)
    return HALF * weight * (2 + math.sqrt(terms) + distance) + 2.0**-24


def _layer_norm(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound c / s with c = x - mean(x) and s = sqrt(mean(c^2) + eps).

    c is off by d, the error of x and of the mean. s is a norm, off by at most the norm of d; to the first order it is off
    by mean(c d) / s, which is what errors of either sign add up to.
    """
    x, shape, weight, bias, eps = (*args, *(None,) * 5)[:5]
    dims = tuple(range(-len(shape), 0))
    wide = x.value.double()
    terms = math.prod(shape)
    parts = torch.full_like(wide, 1 / terms)

    def total(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return (values * weights).sum(dims, keepdim=True)

    mean_error = run.add(run.combine(total, x.error, parts), run.products(total, wide, parts, terms))
    centred = wide - wide.mean(dims, keepdim=True)
    deviation = (centred.square().mean(dims, keepdim=True) + (1e-5 if eps is None else eps)).sqrt()
    normal = (centred / deviation).abs()
    if run.half:
        moved = run.add(x.error, mean_error, HALF * centred.abs())
        shift = run.combine(total, moved, normal * parts)
        slack = 4 * HALF * normal  # squares and their mean, its root, the quotient, the weighted result
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
    """A function of each number whose slope is nowhere larger."""

    def rule(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
        value = _call(target, args, kwargs)
        slack = FUNCTION * value.double().abs().clamp(min=1.0)
        return Bounded(value, run.add(args[0].error * slope, slack))

    return rule


def _clamp(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    return Bounded(_call(target, args, kwargs), args[0].error)


def _sum(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    value = _call(target, args, kwargs)
    errors = [arg.error for arg in args if isinstance(arg, Bounded)]
    return Bounded(value, run.add(*errors, FLOAT * value.double().abs()))


def _product(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    value = _call(target, args, kwargs)
    a, b = (one if isinstance(one, Bounded) else run.exact(torch.tensor(float(one))) for one in args[:2])
    error = run.add(a.error * (_magnitude(b) + b.error), _magnitude(a) * b.error)
    return Bounded(value, run.add(error, FLOAT * value.double().abs()))


def _mean(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    value = _call(target, args, kwargs)
    terms = args[0].value.numel() // max(value.numel(), 1)

    def mean(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = target(one * other, *args[1:], **kwargs) * terms
        return made

    size = _magnitude(args[0])
    parts = torch.full_like(size, 1 / terms)
    return Bounded(value, run.add(run.combine(mean, args[0].error, parts), run.products(mean, size, parts, terms)))


def _spread(one: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """A scale as numbers and their errors."""
    if isinstance(one, Bounded):
        return one.value.double(), one.error
    return torch.tensor(float(one), dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)


def _along(parameters: torch.Tensor, value: torch.Tensor, target: Any, axis: int) -> torch.Tensor:
    """Parameters of channels, groups or rows, so that they broadcast against the value."""
    name = target._schema.name
    if name.endswith("per_channel"):
        return parameters.reshape([-1 if dim == axis % value.dim() else 1 for dim in range(value.dim())])
    if name.endswith("per_channel_group"):
        return parameters.repeat_interleave(value.shape[-1] // parameters.shape[-1], -1)
    return parameters


def _quantize(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    if run.half:
        raise Skipped("the suite has no error bound for steps of values in float16")
    x, scale, zero = args[:3]
    if scale_is_by_row(target, scale):
        target = library.quantize_per_token.default
    value = _call(target, args, kwargs)
    axis = args[3] if target._schema.name.endswith("per_channel") else 0
    low, high = args[-3:-1]
    step, step_error = (_along(one, value, target, axis) for one in _spread(scale))
    middle, middle_error = (_along(one, value, target, axis) for one in _spread(zero))
    exact = x.value.double() / step
    reach = x.error / step + exact.abs() * (step_error / step + 2 * FLOAT) + TIE
    whole = value.double()
    ends = [(exact + sign * reach).round() + middle for sign in (-1, 1)]
    if not bool(middle_error.any()):
        ends = [one.clamp(low, high) for one in ends]
    error = torch.maximum(whole - ends[0], ends[1] - whole)
    # Another zero point holds the range of its row as well, up to half a step: it clamps values at the ends by one step.
    at_end = (middle_error > 0) & (torch.minimum(whole - low, high - whole) <= 1 + middle_error)
    return Bounded(value, error + at_end.double(), rounded_from=x.error)


def _dequantize(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bounded:
    """Bound (q - zero point) * step.

    With a scale found at run time the grids of two implementations differ. Then either lies within half of its own step of
    the value x that it rounded (a zero point rounds the range of its row by half a step at most, so no value is cut off by
    more), and the two differ by no more than the error of x and one step.
    """
    q, scale = args[:2]
    if scale_is_by_row(target, scale):
        target, args, kwargs = library.dequantize_per_token.default, (*args, torch.float32), {}
    value = _call(target, args, kwargs)
    axis = args[3] if target._schema.name.endswith("per_channel") else 0
    step, step_error = (_along(one, value, target, axis) for one in _spread(scale))
    steps = value.double() / step
    error = q.error * (step + step_error) + steps.abs() * step_error
    if q.rounded_from is not None and bool(step_error.any()):
        error = torch.minimum(error, q.rounded_from + (1 + 2 * TIE) * step + step_error)
    error = error + FLOAT * value.double().abs()
    is_known = not isinstance(scale, Bounded) or not bool(scale.error.any())
    return Bounded(value, error, _spread(scale)[0] if is_known else None)


def scale_is_by_row(target: Any, scale: Any) -> bool:
    """Tell an operator of one scale that got a scale for each row."""
    one = (library.quantize_per_tensor.tensor, library.dequantize_per_tensor.tensor)
    return target in one and isinstance(scale, Bounded) and scale.value.numel() > 1


def _choose(run: _Bounds, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Bounded, Bounded]:
    """A scale of (max - min) / 255 and a zero point of -128 - min / scale, for each row or for the tensor."""
    x = args[0]
    by_row = run.by_row or target is library.choose_qparams_per_token_asymmetric.default
    if by_row:
        scale, zero = library.choose_qparams_per_token_asymmetric(x.value, torch.int8)
        reach = x.error.amax(-1, keepdim=True)
        low = x.value.amin(-1, keepdim=True).double().clamp(max=0)
        least, most = -128, 127
    else:
        scale, zero = target(x.value, *args[1:], **kwargs)
        reach, low = x.error.amax(), x.value.amin().double().clamp(max=0)
        least, most = args[1:3]
    steps = most - least
    step = scale.double()
    step_error = 2 * reach / steps + step * 2 * FLOAT
    exact = least - low / step
    off = reach / step + (low / step).abs() * (step_error / step + 2 * FLOAT) + TIE
    either = (exact + off).round() - (exact - off).round()
    return Bounded(scale, step_error), Bounded(zero, either.reshape(zero.shape))


_EXACT = (_move, _join, _lookup)
"""Rules of operators that round nothing."""

_SAME = (
    "view.default", "reshape.default", "flatten.using_ints", "permute.default", "transpose.int", "t.default",
    "unsqueeze.default", "squeeze.dim", "select.int", "slice.Tensor", "expand.default", "clone.default",
    "contiguous.default", "alias.default", "detach.default", "dropout.default", "unflatten.int",
)  # fmt: skip


def _operator(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(aten, base), overload)


_RULES: dict[Any, Callable[..., Any]] = {
    **{_operator(name): _move for name in _SAME},
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
    aten.add.Tensor: _sum, aten.sub.Tensor: _sum, aten.mul.Tensor: _product,
    aten.mean.dim: _mean, aten.adaptive_avg_pool2d.default: _mean,
    library.quantize_per_tensor.default: _quantize, library.quantize_per_tensor.tensor: _quantize,
    library.quantize_per_channel.default: _quantize, library.quantize_per_token.default: _quantize,
    library.dequantize_per_tensor.default: _dequantize, library.dequantize_per_tensor.tensor: _dequantize,
    library.dequantize_per_channel.default: _dequantize, library.dequantize_per_token.default: _dequantize,
    library.dequantize_per_channel_group.default: _dequantize,
    library.choose_qparams.tensor: _choose, library.choose_qparams_per_token_asymmetric.default: _choose,
}  # fmt: skip
