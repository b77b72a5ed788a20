"""TOSA 1.0 in numpy, by the definitions of the specification, to compare graphs with.

Integers are computed in int64, and a result that the specification leaves undefined, such as an accumulator that
overflows, is an `UndefinedResult`. Floating-point operators are computed in float64 and rounded once to the result's
dtype. FFT2D, RFFT2D, control flow and variables are not here.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Sequence

import numpy as np
import tosa_numpy_layers as layers
from tosa_numpy_layers import FLOATS, RANGES, UndefinedResult, held, require, returned, rounded, scale_16, scale_32

from edgecore_tosa.graph import NUMPY, Array, Graph, Operator
from edgecore_tosa.schema import DType, NanMode, Op, Rounding

__all__ = ["UndefinedResult", "run"]


def run(graph_bytes: bytes, inputs: Sequence[Array]) -> list[Array]:
    """Return the outputs of a graph; arrays have the dtypes of `edgecore_tosa.graph.NUMPY`."""
    graph = Graph.from_bytes(graph_bytes)
    values = {id(tensor): held(tensor.data, tensor.dtype) for tensor in graph.constants()}
    for tensor, array in zip(graph.inputs, inputs, strict=True):
        assert (array.shape, array.dtype) == (tensor.shape, NUMPY[tensor.dtype]), tensor
        values[id(tensor)] = held(array, tensor.dtype)
    for call in graph.operators:
        result = OPERATORS[call.op](call, *[values[id(tensor)] for tensor in call.inputs])
        assert result.shape == call.output.shape, (call.op.name, result.shape, call.output.shape)
        values[id(call.output)] = rounded(result, call.output.dtype, call.op.name)
    return [returned(values[id(tensor)], tensor.dtype) for tensor in graph.outputs]


def plain(function: Callable[..., Array]) -> Callable[..., Array]:
    """A computation that needs only the arrays."""

    def compute(call: Operator, *arrays: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(*arrays)

    return compute


def wrapped(values: Array, dtype: DType) -> Array:
    """The low bits of integers."""
    return values.astype(np.int64).astype(NUMPY[dtype]).astype(np.int64)


def extreme(function: Callable[[Array, Array], Array], x: Array, y: Array, mode: NanMode) -> Array:
    """A maximum or minimum: with NaN it is NaN, or the other number if `mode` is IGNORE."""
    result = function(x, y)
    if result.dtype != np.float64:
        return result
    if mode == NanMode.IGNORE:
        return np.where(np.isnan(x), y, np.where(np.isnan(y), x, result))
    return np.where(np.isnan(x) | np.isnan(y), np.nan, result)


def _extreme(function):
    return lambda call, x, y: extreme(function, x, y, call.attribute.nan_mode)


def _reduce_extreme(function):
    def compute(call, x):
        parts = np.split(x, x.shape[call.attribute.axis], call.attribute.axis)
        result = parts[0]
        for part in parts[1:]:
            result = extreme(function, result, part, call.attribute.nan_mode)
        return result

    return compute


def _reduce(function):
    return lambda call, x: function(x, axis=call.attribute.axis, keepdims=True)


def _clamp(call, x):
    dtype, attribute = call.output.dtype, call.attribute
    low, high = (held(np.frombuffer(data, NUMPY[dtype], 1), dtype) for data in (attribute.min_val, attribute.max_val))
    require(bool((low <= high).all()), "CLAMP with a minimum above its maximum")
    smallest = extreme(np.maximum, x, np.broadcast_to(low, x.shape), attribute.nan_mode)
    return extreme(np.minimum, smallest, np.broadcast_to(high, x.shape), attribute.nan_mode)


def _integer_division(x, y):
    require(bool((y != 0).all()), "INTDIV by zero")
    return np.sign(x) * np.sign(y) * (abs(x) // abs(y))


def _shift_amount(call, amount):
    bits = 8 * NUMPY[call.output.dtype].itemsize
    require(bool(((amount >= 0) & (amount < bits)).all()), f"a shift beyond 0 to {bits - 1}")
    return amount


def _arithmetic_right(call, x, amount):
    _shift_amount(call, amount)
    result = x >> amount
    if call.attribute.round:
        result = result + np.where(amount > 0, (x >> np.maximum(amount - 1, 0)) & 1, 0)
    return result


def _left(call, x, amount):
    return wrapped(x << _shift_amount(call, amount), call.output.dtype)


def _logical_right(call, x, amount):
    bits = 8 * NUMPY[call.output.dtype].itemsize
    return wrapped((x & ((1 << bits) - 1)) >> _shift_amount(call, amount), call.output.dtype)


def _multiply(call, x, y, shift):
    with np.errstate(all="ignore"):
        product = x * y
    dtype, amount = call.inputs[0].dtype, int(shift.reshape(()))
    if dtype != DType.INT32:
        require(amount == 0, "MUL with a shift that is not of int32")
        return product
    if amount == 0:
        return wrapped(product, DType.INT32)
    return (product + (1 << (amount - 1))) >> amount


def _negate(call, x, input_zero, output_zero):
    if call.output.dtype in FLOATS:
        return -x
    return np.clip(output_zero - (x - input_zero), *RANGES[call.output.dtype])


def _table(call, x, table):
    if call.inputs[0].dtype == DType.INT8:
        return table[x + 128]
    index, fraction = (x + 32768) >> 7, x & 127
    slope = table[index + 1] - table[index]
    require(bool((abs(slope + 0.5) < 2**15).all()), "TABLE with a slope beyond int16")
    return table[index] * 128 + slope * fraction


def _leading_zeros(x):
    unsigned = x & 0xFFFFFFFF
    return sum(((unsigned >> bit) == 0).astype(np.int64) for bit in range(32))


def _argmax(call, x):
    axis = call.attribute.axis
    if x.dtype != np.float64 or not np.isnan(x).any():
        return np.argmax(x, axis)
    if call.attribute.nan_mode == NanMode.IGNORE:
        x = np.where(np.isnan(x), -np.inf, x)
    return np.argmax(x, axis)


def _pad(call, x, padding, value):
    return np.pad(x, padding.reshape(-1, 2).tolist(), constant_values=value.reshape(()))


def _slice(call, x, start, size):
    require(bool((start >= 0).all() and (start + size <= x.shape).all()), "SLICE beyond its input")
    return x[tuple(slice(first, first + count) for first, count in zip(start, size, strict=True))]


def _checked_indices(indices, limit):
    require(bool(((indices >= 0) & (indices < limit)).all()), "an index out of bounds")
    return indices


def _gather(call, values, indices):
    return np.take_along_axis(values, _checked_indices(indices, values.shape[1])[:, :, None], axis=1)


def _scatter(call, values, indices, rows):
    result = values.copy()
    for batch, row in enumerate(_checked_indices(indices, values.shape[1])):
        require(len(set(row.tolist())) == row.size, "SCATTER with an index that occurs twice")
        result[batch, row] = rows[batch]
    return result


def _cast(call, x):
    source, dtype = call.inputs[0].dtype, call.output.dtype
    if dtype == DType.BOOL:
        return x != 0
    if dtype in FLOATS:
        return x.astype(np.float64)
    if source in FLOATS:
        return np.clip(np.rint(x), *RANGES[dtype]).astype(np.int64)
    return wrapped(x, dtype)


def _rescale(call, x, multiplier, shift, input_zero, output_zero):
    attribute, dtypes = call.attribute, (call.inputs[0].dtype, call.output.dtype)
    bits = [48 if dtype == DType.INT48 else 8 * NUMPY[dtype].itemsize for dtype in dtypes]
    if attribute.input_unsigned:
        x, input_zero = x & ((1 << bits[0]) - 1), input_zero & ((1 << bits[0]) - 1)
    if attribute.output_unsigned:
        output_zero = output_zero & ((1 << bits[1]) - 1)
    require(
        bool((multiplier >= 0).all() and (shift >= 2).all() and (shift <= 62).all()), "RESCALE: multiplier or shift"
    )
    value = x - input_zero
    if attribute.scale32:
        scaled = scale_32(value, multiplier, shift, attribute.rounding_mode == Rounding.DOUBLE_ROUND)
    else:
        require(attribute.rounding_mode != Rounding.DOUBLE_ROUND, "RESCALE: DOUBLE_ROUND with 16 bits")
        scaled = scale_16(value, multiplier, shift)
    limits = (0, (1 << bits[1]) - 1) if attribute.output_unsigned else RANGES[dtypes[1]]
    return wrapped(np.clip(scaled + output_zero, *limits), dtypes[1])


def _error_function(x):
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


OPERATORS: dict[Op, Callable[..., Array]] = {
    Op.ARGMAX: _argmax,
    Op.CLAMP: _clamp,
    Op.ERF: plain(_error_function),
    Op.SIGMOID: plain(lambda x: 1 / (1 + np.exp(-x))),
    Op.TANH: plain(np.tanh),
    Op.ADD: plain(python.add),
    Op.ARITHMETIC_RIGHT_SHIFT: _arithmetic_right,
    Op.BITWISE_AND: plain(python.and_),
    Op.BITWISE_OR: plain(python.or_),
    Op.BITWISE_XOR: plain(python.xor),
    Op.INTDIV: plain(_integer_division),
    Op.LOGICAL_AND: plain(np.logical_and),
    Op.LOGICAL_LEFT_SHIFT: _left,
    Op.LOGICAL_RIGHT_SHIFT: _logical_right,
    Op.LOGICAL_OR: plain(np.logical_or),
    Op.LOGICAL_XOR: plain(np.logical_xor),
    Op.MAXIMUM: _extreme(np.maximum),
    Op.MINIMUM: _extreme(np.minimum),
    Op.MUL: _multiply,
    Op.POW: plain(np.power),
    Op.SUB: plain(python.sub),
    Op.TABLE: _table,
    Op.ABS: plain(abs),
    Op.BITWISE_NOT: plain(python.invert),
    Op.CEIL: plain(np.ceil),
    Op.CLZ: plain(_leading_zeros),
    Op.COS: plain(np.cos),
    Op.EXP: plain(np.exp),
    Op.FLOOR: plain(np.floor),
    Op.LOG: plain(np.log),
    Op.LOGICAL_NOT: plain(np.logical_not),
    Op.NEGATE: _negate,
    Op.RECIPROCAL: plain(lambda x: 1 / x),
    Op.RSQRT: plain(lambda x: 1 / np.sqrt(x)),
    Op.SIN: plain(np.sin),
    Op.SELECT: plain(np.where),
    Op.EQUAL: plain(python.eq),
    Op.GREATER: plain(python.gt),
    Op.GREATER_EQUAL: plain(python.ge),
    Op.REDUCE_ALL: _reduce(np.all),
    Op.REDUCE_ANY: _reduce(np.any),
    Op.REDUCE_MAX: _reduce_extreme(np.maximum),
    Op.REDUCE_MIN: _reduce_extreme(np.minimum),
    Op.REDUCE_PRODUCT: _reduce(np.prod),
    Op.REDUCE_SUM: _reduce(np.sum),
    Op.CONCAT: lambda call, *arrays: np.concatenate(arrays, call.attribute.axis),
    Op.PAD: _pad,
    Op.RESHAPE: lambda call, x, shape: x.reshape(shape.tolist()),
    Op.REVERSE: lambda call, x: np.flip(x, call.attribute.axis),
    Op.SLICE: _slice,
    Op.TILE: lambda call, x, multiples: np.tile(x, multiples.tolist()),
    Op.TRANSPOSE: lambda call, x: x.transpose(call.attribute.perms),
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.CAST: _cast,
    Op.RESCALE: _rescale,
    Op.IDENTITY: lambda call, x: x,
    **layers.OPERATORS,
}
