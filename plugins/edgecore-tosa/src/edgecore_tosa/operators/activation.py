"""Lower functions of one variable to TOSA: activations, and elementwise operators with a constant."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from edgecore_tosa.builder.builder import Builder, Value
from edgecore_tosa.builder.lookup import LIMIT, table
from edgecore_tosa.builder.operator_table import FLOAT, QUANTIZED, Query, Row, needs_integers
from edgecore_tosa.graph import Tensor
from edgecore_tosa.operators.elementwise import total
from edgecore_tosa.schema import DType, Op

aten = torch.ops.aten

Real = Callable[[Builder, Tensor], Tensor]
"""A function that writes an operator in floating point."""


def tabulated(b: Builder) -> Value:
    """Emit a lookup table (TOSA's TABLE) for the node; the PyTorch operator computes the table's entries."""
    node = b.node
    assert node is not None and callable(node.target)
    target, first = node.target, node.all_input_nodes[0]

    def function(reals: torch.Tensor) -> torch.Tensor:
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda other: reals if other is first else None)
        result: torch.Tensor = target(*args, **kwargs)
        return result

    return table(b, b.value(first), function)


def _unary(real: Real | None) -> Callable[[Builder], Value]:
    """Return the function that lowers an operator: to a lookup table if quantized, otherwise by calling `real`."""

    def lower(b: Builder) -> Value:
        assert b.node is not None
        if b.quantization is not None:
            return tabulated(b)
        assert real is not None
        x = b.value(b.node.all_input_nodes[0])
        return Value(real(b, x.tensor), x.order)

    return lower


def _direct(op: Op) -> Real:
    return lambda b, x: b.compute(op, x)


def _scaled_log(factor: float) -> Real:
    return lambda b, x: b.compute(Op.MUL, b.compute(Op.LOG, x), factor)


def _multiplied_by(b: Builder, x: Tensor) -> Tensor:
    return b.compute(Op.MUL, x, float(b.argument("other")))


def _shifted(op: Op, *, swapped: bool = False) -> Callable[[Builder], Value]:
    """Return the function that lowers a sum or difference of a tensor and a number; for int8, to a lookup table."""

    def lower(b: Builder) -> Value:
        x = b.input()
        if x.quantization is not None and x.quantization.dtype == DType.INT8:
            return tabulated(b)
        return total(b, op, "other", "self") if swapped else total(b, op)

    return lower


def _divided(b: Builder, x: Tensor) -> Tensor:
    return b.compute(Op.MUL, x, 1 / float(b.argument("other")))


def _power(b: Builder, x: Tensor) -> Tensor:
    """Emit a power in floating point; POW is undefined for negative x, so use products for exponents 2 and 3."""
    exponent = b.argument("exponent")
    if exponent in (2, 3):
        square = b.compute(Op.MUL, x, x)
        return square if exponent == 2 else b.compute(Op.MUL, square, x)
    return b.compute(Op.POW, x, float(exponent))


def _leaky_relu(b: Builder, x: Tensor) -> Tensor:
    slope = b.compute(Op.MUL, x, float(b.argument("negative_slope")))
    return b.compute(Op.SELECT, b.compute(Op.GREATER, x, 0.0), x, slope)


def _polynomial(b: Builder, x: Tensor, coefficients: Sequence[float]) -> Tensor:
    *lower, highest = coefficients
    total = b.compute(Op.MUL, x, highest)
    for coefficient in reversed(lower[1:]):
        total = b.compute(Op.MUL, b.compute(Op.ADD, total, coefficient), x)
    return b.compute(Op.ADD, total, lower[0])


def _expm1(b: Builder, x: Tensor) -> Tensor:
    """Emit e^x - 1 in floating point. Near 0, the subtraction would lose digits, so use the Taylor series."""
    far = b.compute(Op.SUB, b.compute(Op.EXP, x), 1.0)
    near = b.compute(Op.MUL, x, _polynomial(b, x, [1 / math.factorial(i) for i in range(1, 9)]))
    return b.compute(Op.SELECT, b.compute(Op.GREATER, b.compute(Op.ABS, x), 0.5), far, near)


def _log1p(b: Builder, x: Tensor) -> Tensor:
    """Emit log(1 + x) in floating point; near 0, where the addition loses digits of x, use the series of 2 atanh(y).

    With y = x / (2 + x), log(1 + x) = 2 atanh(y) = 2 (y + y^3 / 3 + ...).
    """
    far = b.compute(Op.LOG, b.compute(Op.ADD, x, 1.0))
    y = b.compute(Op.MUL, x, b.compute(Op.RECIPROCAL, b.compute(Op.ADD, x, 2.0)))
    series = _polynomial(b, b.compute(Op.MUL, y, y), [2 / (2 * i + 1) for i in range(5)])
    near = b.compute(Op.MUL, y, series)
    return b.compute(Op.SELECT, b.compute(Op.GREATER, b.compute(Op.ABS, x), 0.25), far, near)


def _elu(b: Builder, x: Tensor) -> Tensor:
    alpha, scale, input_scale = (float(b.argument(name)) for name in ("alpha", "scale", "input_scale"))
    below = b.compute(Op.MUL, _expm1(b, b.compute(Op.MUL, x, input_scale)), alpha * scale)
    above = b.compute(Op.MUL, x, scale)
    return b.compute(Op.SELECT, b.compute(Op.GREATER, x, 0.0), above, below)


def _gelu(b: Builder, x: Tensor) -> Tensor:
    if b.argument("approximate") == "tanh":
        cube = b.compute(Op.MUL, b.compute(Op.MUL, x, x), x)
        inner = b.compute(Op.ADD, x, b.compute(Op.MUL, cube, 0.044715))
        part = b.compute(Op.TANH, b.compute(Op.MUL, inner, math.sqrt(2 / math.pi)))
    else:
        part = b.compute(Op.ERF, b.compute(Op.MUL, x, math.sqrt(0.5)))
    return b.compute(Op.MUL, b.compute(Op.MUL, x, 0.5), b.compute(Op.ADD, part, 1.0))


def _multiplied(b: Builder) -> Value:
    """Multiply or divide by a number; for a quantized value and a positive number, only the scale changes."""
    assert b.node is not None
    divides = b.node.target is aten.div.Scalar
    number = float(b.argument("other"))
    factor = 1 / number if divides and number else number
    x = b.input()
    if b.quantization is None or x.quantization is None or factor <= 0:
        return _unary(_divided if divides else _multiplied_by)(b)
    return b.convert(Value(x.tensor, x.order, x.quantization.scaled(factor)), b.quantization)


def _prelu(b: Builder) -> Value:
    """Emit a quantized PReLU, max(x, 0) + weight * min(x, 0), with a 16-bit weight per channel."""
    x, weights = b.input(), b.real_constant(b.argument("weight"))
    q = x.quantization
    assert weights is not None and q is not None
    channel = x.axis(1) if len(x.order) > 1 else 0
    shape = [1] * len(x.order)
    shape[channel] = weights.size
    bits = 14 - max(math.frexp(float(abs(weights).max()))[1], 0)
    tensor = b.rescale(x.tensor, 1.0, DType.INT32, q.zero_point)
    weight = b.constant((weights * 2**bits).round().reshape(shape), DType.INT32)
    above = b.compute(Op.MUL, b.compute(Op.MAXIMUM, tensor, 0), 2**bits)
    below = b.compute(Op.MUL, b.compute(Op.MINIMUM, tensor, 0), weight)
    return b.finish(b.compute(Op.ADD, above, below), q.step / 2**bits, x.order)


def _softshrink(b: Builder) -> Value:
    """Emit a quantized softshrink, x - min(max(x, -lambd), lambd); for int8, it becomes a table.

    For int16 a table would interpolate, which is inexact where the slope changes.
    """
    bits = 8
    x = b.input()
    q = x.quantization
    assert q is not None
    if q.dtype == DType.INT8:
        return tabulated(b)
    limit = round(min(float(b.argument("lambd")) / q.step, LIMIT + 1.0) * 2**bits)
    tensor = b.rescale(x.tensor, 2.0**bits, DType.INT32)
    inner = b.compute(Op.MAXIMUM, b.compute(Op.MINIMUM, tensor, limit), -limit)
    return b.finish(b.compute(Op.SUB, tensor, inner), q.step / 2**bits, x.order)


def _check_prelu(query: Query) -> str | None:
    if not query.is_constant(query.argument("weight")):
        return "its weight is not a constant"
    if query.parameters.of(query.node) is None:
        return "not quantized"
    return None


def quantized(query: Query) -> str | None:
    """Return a reason if the result of an fx node is not quantized; None if it is."""
    return "only quantized calls" if query.parameters.of(query.node) is None else None


def _check_steps(has_real: bool) -> Callable[[Query], str | None]:
    def check(query: Query) -> str | None:
        quantizations = [query.parameters.of(node) for node in (query.node, *query.node.all_input_nodes)]
        if any(q is not None and q.dtype == DType.INT16 for q in quantizations):
            return "a table for int16 has no steps"
        return None if has_real else quantized(query)

    return check


def _number(query: Query) -> str | None:
    return None if isinstance(query.argument("other"), (int, float)) else "its number is not known when compiling"


def _added(query: Query) -> str | None:
    return "alpha is not 1" if query.argument("alpha") != 1 else _number(query)


def _tanh_or_none(query: Query) -> str | None:
    known = query.argument("approximate") in ("none", "tanh")
    return None if known else "an unknown approximation"


_DIRECT = {
    aten.abs.default: Op.ABS,
    aten.neg.default: Op.NEGATE,
    aten.exp.default: Op.EXP,
    aten.log.default: Op.LOG,
    aten.rsqrt.default: Op.RSQRT,
    aten.reciprocal.default: Op.RECIPROCAL,
    aten.sin.default: Op.SIN,
    aten.cos.default: Op.COS,
    aten.sigmoid.default: Op.SIGMOID,
    aten.tanh.default: Op.TANH,
    aten.erf.default: Op.ERF,
}
"""Operators that TOSA has in floating point."""

_COMPOSED: dict[Any, Real] = {
    aten.sqrt.default: lambda b, x: b.compute(Op.POW, x, 0.5),
    aten.expm1.default: _expm1,
    aten.log1p.default: _log1p,
    aten.log2.default: _scaled_log(1 / math.log(2)),
    aten.log10.default: _scaled_log(1 / math.log(10)),
    aten.leaky_relu.default: _leaky_relu,
    aten.elu.default: _elu,
}
"""Operators composed of several floating-point operators of TOSA."""

_TABLES_ONLY = (
    aten.tan.default,
    aten.sinh.default,
    aten.cosh.default,
    aten.asin.default,
    aten.acos.default,
    aten.atan.default,
    aten.asinh.default,
    aten.acosh.default,
    aten.atanh.default,
    aten.logit.default,
)
"""Operators of the edge dialect that are supported only if quantized."""

_STEPS: dict[Any, Real | None] = {
    aten.floor.default: _direct(Op.FLOOR),
    aten.ceil.default: _direct(Op.CEIL),
    aten.round.default: None,
    aten.trunc.default: None,
    aten.sign.default: None,
}
"""Maps step functions to their lowering in floating point, or to None if TOSA has none. Quantized step functions must
be int8, because an int16 table would interpolate at the steps.
"""

_DECOMPOSED = (
    aten.silu.default,
    aten.hardswish.default,
    aten.hardsigmoid.default,
    aten.mish.default,
    aten.softplus.default,
    aten.celu.default,
    aten.selu.default,
    aten.log_sigmoid.default,
    aten.square.default,
    aten.exp2.default,
)
"""Operators that are decomposed unless quantized; a quantized call becomes a single table."""

ROWS = (
    *(Row(target, FLOAT, "", None, False, _unary(_direct(op))) for target, op in _DIRECT.items()),
    *(Row(target, FLOAT, "", None, False, _unary(real)) for target, real in _COMPOSED.items()),
    *(
        Row(target, QUANTIZED, "quantized only", quantized, False, tabulated, lacks=needs_integers)
        for target in _TABLES_ONLY
    ),
    *(
        Row(target, QUANTIZED, "quantized only", quantized, True, tabulated, lacks=needs_integers)
        for target in _DECOMPOSED
    ),
    *(
        Row(
            target,
            FLOAT if real else QUANTIZED,
            "not int16" if real else "int8 only",
            _check_steps(real is not None),
            False,
            _unary(real),
            lacks=None if real else needs_integers,
        )
        for target, real in _STEPS.items()
    ),
    Row(aten.softshrink.default, QUANTIZED, "quantized only", quantized, True, _softshrink, lacks=needs_integers),
    Row(
        aten.hardshrink.default,
        QUANTIZED,
        "int8 only",
        _check_steps(has_real=False),
        True,
        tabulated,
        lacks=needs_integers,
    ),
    Row(aten.gelu.default, FLOAT, "", _tanh_or_none, False, _unary(_gelu)),
    Row(aten.pow.Tensor_Scalar, FLOAT, "", None, False, _unary(_power)),
    Row(aten.mul.Scalar, FLOAT, "a constant number", _number, False, _multiplied),
    Row(aten.div.Scalar, FLOAT, "a constant number", _number, False, _multiplied),
    Row(aten.add.Scalar, FLOAT, "a constant number, alpha 1", _added, False, _shifted(Op.ADD)),
    Row(aten.sub.Scalar, FLOAT, "a constant number, alpha 1", _added, False, _shifted(Op.SUB)),
    Row(aten.rsub.Scalar, FLOAT, "a constant number, alpha 1", _added, False, _shifted(Op.SUB, swapped=True)),
    Row(
        aten.prelu.default,
        QUANTIZED,
        "quantized, constant weight",
        _check_prelu,
        True,
        _prelu,
        ("weight",),
        lacks=needs_integers,
    ),
)
