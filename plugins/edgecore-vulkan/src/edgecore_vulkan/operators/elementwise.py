"""Lower unary and binary operators, comparisons, logic and dtype conversions to operator calls."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import arguments_by_name
from edgecore_vulkan.graph.calls import TensorValue
from edgecore_vulkan.operators.builder import (
    ALL,
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    Builder,
    Lower,
    Row,
    Unsupported,
    is_float,
    is_static,
    plain,
)

aten = torch.ops.aten

_COMPARE_NAMES = ("eq", "ne", "lt", "le", "gt", "ge")


def _binary(name: str, reverse: bool = False) -> Lower:
    """Return a function that lowers an operator of two tensors, or of a tensor and a number (made a constant)."""

    def lower(b: Builder, node: Node) -> TensorValue:
        args = arguments_by_name(node)
        left, right = operands(b, node)
        if reverse:
            left, right = right, left
        alpha = args.get("alpha", 1)
        if name not in ("add", "sub"):
            rest = []
        elif isinstance(alpha, (int, float)):
            rest = [alpha]
        else:
            raise Unsupported("alpha is computed")
        if reverse and alpha != 1:
            right = b.call("aten.mul.Tensor", [right, b.scalar(alpha, right)], right.like())
            rest = [1]
        overload = "default" if name in ("minimum", "maximum") else "Tensor"
        output: TensorValue = b.call(f"aten.{name}.{overload}", [left, right, *rest], b.result(node))
        return output

    return lower


def operands(b: Builder, node: Node) -> tuple[TensorValue, TensorValue]:
    """Return the operands of a binary operator, converted to one dtype; a number becomes a constant."""
    dtype = _common_dtype(node)
    sources = node.args[:2]
    tensors = {
        index: _converted(b, b.value(source), dtype) for index, source in enumerate(sources) if _is_tensor(source)
    }
    like = next(iter(tensors.values()))
    left, right = (
        tensors[index] if index in tensors else b.scalar(_number(source), like) for index, source in enumerate(sources)
    )
    return left, right


def _common_dtype(node: Node) -> torch.dtype:
    """Return the dtype in which a binary operator computes: the result's dtype; for a comparison, the inputs' dtype."""
    result: torch.dtype = node.meta["val"].dtype
    if result != torch.bool:
        return result
    sources: list[Any] = [source.meta["val"] if isinstance(source, Node) else source for source in node.args[:2]]
    return torch.result_type(*sources)


def _converted(b: Builder, value: TensorValue, dtype: torch.dtype) -> TensorValue:
    """Convert a tensor to another dtype.

    The arguments of the call `_to_copy` are self, dtype, layout, device, pin_memory, non_blocking and memory_format.
    The dtype is None, because the call's output determines it.
    """
    if value.dtype == dtype:
        return value
    if value.constant is not None:
        return b.constant(value.constant.to(dtype))
    output: TensorValue = b.call(
        "aten._to_copy.default", [value, *[None] * 4, False, None], TensorValue(value.shape, dtype)
    )
    return output


def _is_tensor(argument: Any) -> bool:
    return isinstance(argument, Node) and isinstance(argument.meta["val"], torch.Tensor)


def _number(argument: Any) -> float:
    if isinstance(argument, Node):
        raise Unsupported(f"bakes {argument.meta['val']}")
    number: float = argument
    return number


def _compare(name: str) -> Lower:
    def lower(b: Builder, node: Node) -> TensorValue:
        left, right = operands(b, node)
        output = b.result(node)
        if name == "ne" and b.profile.is_stock:
            equal = b.call("aten.eq.Tensor", [left, right], output.like())
            b.call("aten.logical_not.default", [equal], output)
        else:
            b.call(f"aten.{name}.Tensor", [left, right], output)
        return output

    return lower


def _compare_number(name: str) -> Lower:
    def lower(b: Builder, node: Node) -> TensorValue:
        left, number = _converted(b, b.value(node.args[0]), _common_dtype(node)), _number(node.args[1])
        output: TensorValue = b.call(f"aten.{name}.Scalar", [left, number], b.result(node))
        return output

    return lower


def _rounded_division(b: Builder, node: Node) -> TensorValue:
    """Emit a division with a rounding mode ("floor" or "trunc"), or a plain division if it does not round."""
    mode = "floor" if node.target is aten.floor_divide.default else arguments_by_name(node)["rounding_mode"]
    left, right = operands(b, node)
    name, rest = ("aten.div.Tensor", []) if mode is None else ("aten.div.Tensor_mode", [mode])
    output: TensorValue = b.call(name, [left, right, *rest], b.result(node))
    return output


def _check_rounded_division(query: Any) -> str | None:
    if query.profile.is_stock and query.node.kwargs.get("rounding_mode") == "trunc":
        return "executorch 1.5's delegate rounds all quotients down"
    return None


def _check_sum(query: Any) -> str | None:
    return "a sum of booleans" if query.node.meta["val"].dtype == torch.bool else None


def _silu(b: Builder, node: Node) -> TensorValue:
    x, output = b.value(node.args[0]), b.result(node)
    if not b.profile.is_stock:
        b.call("aten.silu.default", [x], output)
        return output
    gate = b.call("aten.sigmoid.default", [x], output.like())
    b.call("aten.mul.Tensor", [x, gate], output)
    return output


def _hardsigmoid(b: Builder, node: Node) -> TensorValue:
    x, output = b.value(node.args[0]), b.result(node)
    if not b.profile.is_stock:
        b.call("aten.hardsigmoid.default", [x], output)
        return output
    shifted = b.call("aten.add.Tensor", [x, b.scalar(3.0, x), 1], output.like())
    clamped = b.call("aten.clamp.default", [shifted, 0.0, 6.0], output.like())
    b.call("aten.mul.Tensor", [clamped, b.scalar(1 / 6, x)], output)
    return output


def _maximum(b: Builder, node: Node) -> TensorValue:
    left, right = operands(b, node)
    output = b.result(node)
    if not b.profile.is_stock:
        b.call("aten.maximum.default", [left, right], output)
        return output
    negative = [b.call("aten.neg.default", [value], value.like()) for value in (left, right)]
    smallest = b.call("aten.minimum.default", negative, output.like())
    b.call("aten.neg.default", [smallest], output)
    return output


def _check_maximum(query: Any) -> str | None:
    is_stock_integer = query.profile.is_stock and not is_float(query.node)
    return "integers, which executorch 1.5 has no maximum for" if is_stock_integer else None


def _clamp(low: str, high: str) -> Lower:
    """Return a function that lowers a clamp, in the result's dtype: floating-point if a limit is floating-point."""

    def lower(b: Builder, node: Node) -> TensorValue:
        args = arguments_by_name(node)
        output = b.result(node)
        number = float if output.dtype.is_floating_point else int
        limits = [None if args[name] is None else number(_number(args[name])) for name in (low, high)]
        b.call("aten.clamp.default", [_converted(b, b.value(node.args[0]), output.dtype), *limits], output)
        return output

    return lower


def _relu6(b: Builder, node: Node) -> TensorValue:
    output: TensorValue = b.call("aten.clamp.default", [b.value(node.args[0]), 0.0, 6.0], b.result(node))
    return output


def _reciprocal(b: Builder, node: Node) -> TensorValue:
    x, output = b.value(node.args[0]), b.result(node)
    if b.profile.is_stock:
        b.call("aten.div.Tensor", [b.scalar(1.0, x), x], output)
    else:
        b.call("aten.reciprocal.default", [x], output)
    return output


def _square(b: Builder, node: Node) -> TensorValue:
    x = b.value(node.args[0])
    output: TensorValue = b.call("aten.mul.Tensor", [x, x], b.result(node))
    return output


def _power(b: Builder, node: Node) -> TensorValue:
    output = b.result(node)
    x, exponent = _converted(b, b.value(node.args[0]), output.dtype), _number(node.args[1])
    if exponent == 2:
        b.call("aten.mul.Tensor", [x, x], output)
    elif exponent == 0.5:
        b.call("aten.sqrt.default", [x], output)
    else:
        b.call("aten.pow.Tensor_Scalar", [x, exponent], output)
    return output


def _power_of_number(b: Builder, node: Node) -> TensorValue:
    left, right = operands(b, node)
    output: TensorValue = b.call("aten.pow.Tensor_Tensor", [left, right], b.result(node))
    return output


def _leaky_relu(b: Builder, node: Node) -> TensorValue:
    slope = float(arguments_by_name(node)["negative_slope"])
    output: TensorValue = b.call("aten.leaky_relu.default", [b.value(node.args[0]), slope], b.result(node))
    return output


def _convert(b: Builder, node: Node) -> TensorValue:
    """Emit a dtype conversion if the dtype changes; the layout pass handles changes of the dim order."""
    return _converted(b, b.value(node.args[0]), node.meta["val"].dtype)


def _alias(b: Builder, node: Node) -> TensorValue:
    return b.value(node.args[0])


def _where(b: Builder, node: Node) -> TensorValue:
    condition, left, right = (b.value(source) for source in node.args)
    return _choice(b, node, condition, left, right, b.result(node))


def _masked_fill(b: Builder, node: Node) -> TensorValue:
    """Emit a masked_fill as a `where` that chooses between the fill value and the input."""
    source, mask, filling = node.args
    output = b.result(node)
    value = b.value(filling) if _is_tensor(filling) else b.scalar(_number(filling), output)
    return _choice(b, node, b.value(mask), value, b.value(source), output)


def _choice(
    b: Builder, node: Node, condition: TensorValue, left: TensorValue, right: TensorValue, output: TensorValue
) -> TensorValue:
    """Emit `where` in the result's dtype; expand its inputs for ExecuTorch's delegate, which does not broadcast."""
    sources = [condition, _converted(b, left, output.dtype), _converted(b, right, output.dtype)]
    if b.profile.is_stock:
        if not is_static(node) and any(source.shape != output.shape for source in sources):
            raise Unsupported("it broadcasts to a symbolic size, which executorch 1.5 does not support")
        sources = [expanded(b, source, output.shape) for source in sources]
    b.call("aten.where.self", sources, output)
    return output


def _is_not_a_number(b: Builder, node: Node) -> TensorValue:
    x = b.value(node.args[0])
    output: TensorValue = b.call("aten.ne.Tensor", [x, x], b.result(node))
    return output


def _is_infinite(b: Builder, node: Node) -> TensorValue:
    x = b.value(node.args[0])
    size = b.call("aten.abs.default", [x], x.like())
    output: TensorValue = b.call("aten.eq.Scalar", [size, math.inf], b.result(node))
    return output


def _logic(name: str) -> Lower:
    """Return a function that lowers an operator of two tensors, or of a tensor and a number, to the call `name`."""

    def lower(b: Builder, node: Node) -> TensorValue:
        output: TensorValue = b.call(name, list(operands(b, node)), b.result(node))
        return output

    return lower


def expanded(b: Builder, value: TensorValue, shape: tuple[int, ...]) -> TensorValue:
    """Broadcast a tensor to `shape`; a constant is expanded at compile time."""
    if value.shape == shape:
        return value
    if value.constant is not None:
        return b.constant(value.constant.expand(shape).contiguous())
    output: TensorValue = b.call(
        "aten.expand_copy.default", [value, list(shape), False], TensorValue(shape, value.dtype)
    )
    return output


def _row(
    target: Any, lower: Lower, dtypes: tuple[torch.dtype, ...] = FLOAT, constraints: str = "", check: Any = None,
    keep: bool = False, any_dtype: tuple[str, ...] = (),
) -> Row:  # fmt: skip
    return Row(target, dtypes, constraints, check, keep, lower, any_dtype)


_UNARY = ("cos", "exp", "gelu", "hardshrink", "hardswish", "log10", "relu", "sigmoid", "sin", "sqrt", "rsqrt", "tanh",
          "round")  # fmt: skip
_KEPT = ("gelu", "hardshrink", "hardswish", "rsqrt")
_EXTRA_UNARY = ("log", "log1p", "expm1", "erf", "floor", "ceil", "trunc", "sign", "elu")
_BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")
_INTEGERS = "integers with runtime edgecore only"
_ONLY = "runtime edgecore only"


def _edgecore_only(query: Any) -> str | None:
    return "executorch 1.5's delegate has no such operator" if query.profile.is_stock else None


def _op(name: str, overload: str = "default") -> Any:
    return getattr(getattr(aten, name), overload)


ROWS = [
    *(_row(_op(name), plain(), keep=name in _KEPT) for name in _UNARY),
    *(_row(_op(name), plain(), NUMBER, _INTEGERS) for name in ("abs", "neg")),
    *(_row(_op(name), plain(), FLOAT, _ONLY, _edgecore_only) for name in _EXTRA_UNARY),
    *(_row(_op(name, kind), _binary(name), ALL, "no sums of booleans", _check_sum)
      for name in ("add", "sub") for kind in ("Tensor", "Scalar")),
    *(_row(_op(name, kind), _binary(name), ALL) for name in ("mul", "div") for kind in ("Tensor", "Scalar")),
    *(_row(target, _rounded_division, NUMBER, "trunc with runtime edgecore only", _check_rounded_division)
      for target in (aten.div.Tensor_mode, aten.div.Scalar_mode, aten.floor_divide.default)),
    *(_row(_op("remainder", kind), _logic("aten.remainder.Tensor"), NUMBER, _ONLY, _edgecore_only)
      for kind in ("Tensor", "Scalar")),
    _row(aten.rsub.Scalar, _binary("sub", reverse=True), NUMBER),
    _row(aten.minimum.default, _binary("minimum"), NUMBER),
    _row(aten.maximum.default, _maximum, NUMBER, _INTEGERS, _check_maximum),
    _row(aten.pow.Tensor_Scalar, _power, NUMBER, _INTEGERS),
    _row(aten.pow.Tensor_Tensor, _power_of_number, NUMBER),
    _row(aten.pow.Scalar, _power_of_number),
    *(_row(_op(name, "Tensor"), _compare(name), ALL) for name in _COMPARE_NAMES),
    *(_row(_op(name, "Scalar"), _compare_number(name), ALL) for name in _COMPARE_NAMES),
    *(_row(_op(name), lower, FLOAT + BOOL, _ONLY, _edgecore_only)
      for name, lower in (("isnan", _is_not_a_number), ("isinf", _is_infinite))),
    *(_row(_op(name), plain(), BOOL) for name in ("logical_and", "logical_or", "logical_not")),
    _row(aten.logical_xor.default, plain(), BOOL, _ONLY, _edgecore_only),
    *(_row(_op(name, kind), _logic(f"aten.{name}.Tensor"), BOOL + INT, _INTEGERS)
      for name in _BITWISE for kind in ("Tensor", "Scalar")),
    _row(aten.bitwise_not.default, plain(), BOOL + INT, _INTEGERS),
    _row(aten.clamp.default, _clamp("min", "max"), NUMBER),
    _row(aten.hardtanh.default, _clamp("min_val", "max_val"), keep=True),
    _row(aten.relu6.default, _relu6, keep=True),
    _row(aten.silu.default, _silu, keep=True),
    _row(aten.hardsigmoid.default, _hardsigmoid, keep=True),
    _row(aten.leaky_relu.default, _leaky_relu, keep=True),
    _row(aten.reciprocal.default, _reciprocal),
    _row(aten.square.default, _square),
    _row(aten._to_copy.default, _convert, ALL),
    _row(aten.alias_copy.default, _alias, ALL),
    _row(aten.where.self, _where, ALL),
    *(_row(_op("masked_fill", kind), _masked_fill, ALL) for kind in ("Scalar", "Tensor")),
]  # fmt: skip
