"""Lower quantize and dequantize nodes, and dtype conversions, to TOSA."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from edgecore.sdk import NodeQuery
from edgecore.sdk.torch_compat import quantized_operators
from edgecore_tosa.builder.builder import DTYPES, Builder, Value
from edgecore_tosa.builder.operator_table import FLOAT, INTEGER, Query, Row, needs_integers, needs_real_numbers
from edgecore_tosa.quantization.scales import Quantization
from edgecore_tosa.schema import Clamp, DType, NanMode, Op

aten = torch.ops.aten
library = quantized_operators()


def _parameters(b: Builder) -> Quantization:
    assert b.node is not None
    quantization = b.parameters.of_node(b.node)
    assert quantization is not None
    return quantization


def _dequantize(b: Builder) -> Value:
    """Lower a dequantize node: attach its quantization parameters to the integers; TOSA needs no operator."""
    return replace(b.input("input"), quantization=_parameters(b))


def _quantize(b: Builder) -> Value:
    """Lower a quantize node: rescale integers to the node's parameters, or quantize floating-point numbers."""
    x, result = b.input("input"), _parameters(b)
    if x.quantization is None:
        x = _rounded(b, x, result)
    return replace(b.convert(x, result), quantization=None)


def _rounded(b: Builder, x: Value, result: Quantization) -> Value:
    """Quantize floating-point values; the zero point is added after CAST, which rounds ties to even like torch."""
    scaled = b.compute(Op.MUL, x.tensor, 1 / result.step)
    limits = [np.float32(limit - result.zero_point).tobytes() for limit in (result.low, result.high)]
    shape = x.tensor.shape
    clamped = b.emit(Op.CLAMP, [scaled], shape, DType.FP32, Clamp(limits[0], limits[1], NanMode.PROPAGATE))
    if not result.zero_point:
        return Value(b.emit(Op.CAST, [clamped], shape, result.dtype), x.order, result)
    integers = b.compute(Op.ADD, b.emit(Op.CAST, [clamped], shape, DType.INT32), result.zero_point)
    return Value(b.emit(Op.CAST, [integers], shape, result.dtype), x.order, result)


def _known(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    if query.parameters.of_node(query.node) is None:
        return "its scale or zero point is not known when compiling, or differs by channel"
    return None


def _known_and_quantized(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    if not query.spec.floating and query.parameters.of(query.argument("input")) is None:
        return "its input is not the result of an operator on integers"
    return _known(query)


def _converted(b: Builder) -> Value:
    assert b.node is not None
    x, dtype = b.input(), DTYPES[b.node.meta["val"].dtype]
    return x if x.tensor.dtype == dtype else replace(x, tensor=b.emit(Op.CAST, [x.tensor], x.tensor.shape, dtype))


def _check_converted(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    source, dtype = query.argument("self").meta["val"].dtype, query.node.meta["val"].dtype
    if source.is_floating_point and not dtype.is_floating_point:
        return "real numbers to integers: TOSA rounds to the nearest"
    return None


ROWS = (
    Row(
        aten._to_copy.default,
        FLOAT + INTEGER,
        "not from real numbers to integers",
        _check_converted,
        False,
        _converted,
        lacks=needs_real_numbers,
    ),
    Row(
        library.dequantize_per_tensor.default,
        (torch.float32, *INTEGER),
        "constant scale",
        _known,
        False,
        _dequantize,
        lacks=needs_integers,
    ),
    Row(
        library.dequantize_per_channel.default,
        (torch.float32, *INTEGER),
        "constant scales, zero points 0",
        _known,
        False,
        _dequantize,
        ("scales", "zero_points"),
        lacks=needs_integers,
    ),
    Row(
        library.quantize_per_tensor.default,
        (torch.float32, *INTEGER),
        "of a quantized operator",
        _known_and_quantized,
        False,
        _quantize,
        lacks=needs_integers,
    ),
)
