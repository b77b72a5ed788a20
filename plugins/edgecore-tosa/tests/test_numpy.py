"""Every operator of TOSA in numpy and in Arm's reference model: integers are equal bit for bit.

Real numbers differ at most by `ULPS` and one step of rounding. The numbers there for one input are the ulps that Arm's
conformance tests (tosa_tools 2026.8.0) allow; the functions, and the bounds of sums, which are a step of the accumulator
for each term at the greatest magnitude of the sum, are estimates that hold the shape of the specification's bounds.
"""

from __future__ import annotations

import numpy as np
import pytest
from tosa_compare import ALL, FRACTION, INTEGERS, agree, both, dtype_names, operators, random, seed_of
from tosa_graphs import constant
from tosa_numpy_layers import FLOATS, held, returned

from edgecore_tosa.graph import NUMPY, encode
from edgecore_tosa.schema import (
    ATTRIBUTES,
    ArithmeticRightShift,
    Clamp,
    DType,
    NanMode,
    Op,
    Rescale,
    Rounding,
)


def _around_x(x, y):
    return (1 + abs(x)) * abs(y)


# The greatest error of each operator: a number of steps of the result, or a function (input, result) -> the error in
# units of 2**-fraction.
ULPS = {
    Op.ADD: 0.5, Op.SUB: 0.5, Op.MUL: 0.5, Op.CEIL: 0, Op.FLOOR: 0, Op.ABS: 0, Op.NEGATE: 0, Op.ERF: 5,
    Op.RECIPROCAL: 1, Op.RSQRT: 2, Op.CAST: 0.5,
    Op.EXP: lambda x, y: 3 * _around_x(x, y),
    Op.SIGMOID: lambda x, y: 2 * _around_x(x, y),
    Op.TANH: lambda x, y: 12 * (1 + abs(x)) * abs(y),
    Op.LOG: lambda x, y: 5 * np.maximum(abs(y), 0.5),
    Op.SIN: lambda x, y: 2 * np.maximum(abs(x), 1e-3),
    Op.COS: lambda x, y: 1 + abs(x),
    Op.POW: lambda x, y: 8 * _around_x(x, y),
}  # fmt: skip


def steps(op: Op, dtype: DType, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The greatest difference of two results, each of which has the error of `ULPS`."""
    unit = 2.0 ** -FRACTION[dtype]
    bound = ULPS[op]
    size = bound(x, y) if callable(bound) else bound * abs(y)
    return size * unit + np.maximum(abs(y), 2.0**-14) * unit


# ---- elementwise


@operators(Op.EXP, Op.SIGMOID, Op.TANH, Op.ERF, Op.SIN, Op.COS, Op.LOG, Op.RSQRT, Op.RECIPROCAL, Op.CEIL, Op.FLOOR)
@dtype_names(*FLOATS)
def test_functions_of_a_real_number_are_within_the_bound(op, dtype):
    positive = op in (Op.LOG, Op.RSQRT, Op.RECIPROCAL)
    x = random(seed_of(op, dtype), dtype, (3, 50), 0.05 if positive else -8.0, 8.0)
    y, _ = both(op, [(x, dtype)], x.shape, dtype)
    agree(op, [(x, dtype)], x.shape, dtype, None, steps(op, dtype, held(x, dtype), held(y, dtype)))


@operators(Op.ADD, Op.SUB)
@dtype_names(DType.INT32, *FLOATS)
def test_sums_broadcast_dims_of_size_one(op, dtype):
    generator = seed_of(op, dtype)
    limits = (-(2**30), 2**30 - 1) if dtype == DType.INT32 else (None, None)
    x, y = random(generator, dtype, (2, 1, 5), *limits), random(generator, dtype, (1, 3, 5), *limits)
    result, _ = both(op, [(x, dtype), (y, dtype)], (2, 3, 5), dtype)
    bound = steps(op, dtype, 0, held(result, dtype)) if dtype in FLOATS else None
    agree(op, [(x, dtype), (y, dtype)], (2, 3, 5), dtype, None, bound)


@pytest.mark.parametrize(
    ("dtype", "shift"), [(DType.INT8, 0), (DType.INT16, 0), *((DType.INT32, shift) for shift in (0, 1, 7, 31))], ids=str
)
def test_products_of_integers_are_exact(dtype, shift):
    generator = seed_of(dtype, shift)
    limit = None if dtype != DType.INT32 or shift == 31 else 2**15
    x, y = (random(generator, dtype, (4, 6), None if limit is None else -limit, limit) for _ in range(2))
    agree(Op.MUL, [(x, dtype), (y, dtype), constant([shift], DType.INT8)], x.shape, DType.INT32)


@dtype_names(*FLOATS)
def test_products_and_powers_of_real_numbers(dtype):
    generator = seed_of(dtype)
    x, y = random(generator, dtype, (4, 6), 0.1, 4.0), random(generator, dtype, (4, 6), -2.0, 2.0)
    for op, more in ((Op.MUL, [constant([0], DType.INT8)]), (Op.POW, [])):
        operands = [(x, dtype), (y, dtype), *more]
        result, _ = both(op, operands, x.shape, dtype)
        agree(op, operands, x.shape, dtype, None, steps(op, dtype, held(y, dtype), held(result, dtype)))


@operators(Op.BITWISE_AND, Op.BITWISE_OR, Op.BITWISE_XOR)
@dtype_names(*INTEGERS)
def test_bitwise_operators_of_two_integers(op, dtype):
    generator = seed_of(op, dtype)
    agree(op, [(random(generator, dtype, (4, 6)), dtype), (random(generator, dtype, (4, 1)), dtype)], (4, 6), dtype)


@pytest.mark.parametrize(
    ("op", "dtype"),
    [*((Op.BITWISE_NOT, dtype) for dtype in INTEGERS), (Op.CLZ, DType.INT32), (Op.ABS, DType.INT32)],
    ids=str,
)
def test_operators_of_one_integer(op, dtype):
    x = random(seed_of(op, dtype), dtype, (4, 30), -(2**31) + 1 if dtype == DType.INT32 else None)
    if op == Op.CLZ:
        x[0] = np.arange(30)
    agree(op, [(x, dtype)], x.shape, dtype)


@operators(Op.LOGICAL_AND, Op.LOGICAL_OR, Op.LOGICAL_XOR, Op.LOGICAL_NOT)
def test_operators_of_booleans(op):
    count = 1 if op == Op.LOGICAL_NOT else 2
    operands = [(random(seed_of(op, number), DType.BOOL, (4, 6)), DType.BOOL) for number in range(count)]
    agree(op, operands, (4, 6), DType.BOOL)


@pytest.mark.parametrize(
    ("op", "attribute"),
    [
        (Op.ARITHMETIC_RIGHT_SHIFT, ArithmeticRightShift(False)),
        (Op.ARITHMETIC_RIGHT_SHIFT, ArithmeticRightShift(True)),
        (Op.LOGICAL_LEFT_SHIFT, None),
        (Op.LOGICAL_RIGHT_SHIFT, None),
    ],
)
@dtype_names(*INTEGERS)
def test_shifts_by_every_number_of_bits(op, attribute, dtype):
    bits = 8 * NUMPY[dtype].itemsize
    x = random(seed_of(op, dtype), dtype, (5, bits))
    amount = np.arange(bits).astype(NUMPY[dtype])[None]
    agree(op, [(x, dtype), (amount, dtype)], x.shape, dtype, attribute)


def test_integer_division_rounds_toward_zero():
    x, y = (random(seed_of(number), DType.INT32, (4, 6), -50, 50) for number in range(2))
    y[y == 0] = 3
    agree(Op.INTDIV, [(x, DType.INT32), (y, DType.INT32)], x.shape, DType.INT32)


@operators(Op.MAXIMUM, Op.MINIMUM)
@dtype_names(DType.INT32, *FLOATS)
@pytest.mark.parametrize("mode", [NanMode.PROPAGATE, NanMode.IGNORE])
def test_the_extreme_of_two_numbers(op, dtype, mode):
    x, y = (random(seed_of(op, dtype, number), dtype, (4, 6)) for number in range(2))
    if dtype in FLOATS:
        x[0, :3], y[0, 2:4] = (returned(np.array([np.nan]), dtype)[0],) * 2
    agree(op, [(x, dtype), (y, dtype)], x.shape, dtype, ATTRIBUTES[op](mode))


@operators(Op.EQUAL, Op.GREATER, Op.GREATER_EQUAL)
@dtype_names(DType.INT32, *FLOATS)
def test_comparisons_give_booleans(op, dtype):
    x, y = (random(seed_of(op, dtype, number), dtype, (4, 6)) for number in range(2))
    x[1] = y[1]
    agree(op, [(x, dtype), (y, dtype)], x.shape, DType.BOOL)


@dtype_names(*ALL)
def test_select_takes_the_first_where_true(dtype):
    generator = seed_of(dtype)
    choice = random(generator, DType.BOOL, (4, 1, 6))
    x, y = random(generator, dtype, (4, 2, 6)), random(generator, dtype, (1, 2, 6))
    agree(Op.SELECT, [(choice, DType.BOOL), (x, dtype), (y, dtype)], (4, 2, 6), dtype)


@dtype_names(DType.INT8, DType.INT16, *FLOATS)
def test_clamp_to_limits_of_the_dtype(dtype):
    x = random(seed_of(dtype), dtype, (4, 6))
    numbers = (-1.5, 2.0) if dtype in FLOATS else (-50, 70)
    limits = [encode(returned(np.array([number]), dtype), dtype) for number in numbers]
    agree(Op.CLAMP, [(x, dtype)], x.shape, dtype, Clamp(*limits, nan_mode=NanMode.PROPAGATE))


@dtype_names(*INTEGERS, *FLOATS)
def test_negate_saturates_with_zero_points(dtype):
    x = random(seed_of(dtype), dtype, (4, 6), -(2**31) + 1 if dtype == DType.INT32 else None)
    zeros = [constant([number if dtype == DType.INT8 else 0], dtype) for number in (-128, 5)]
    agree(Op.NEGATE, [(x, dtype), *zeros], x.shape, dtype)


@dtype_names(DType.INT8, DType.INT16)
def test_tables_are_read_and_interpolated(dtype):
    generator = seed_of(dtype)
    x = random(generator, dtype, (4, 60))
    if dtype == DType.INT8:
        table, result = random(generator, DType.INT8, 256), DType.INT8
    else:
        table, result = random(generator, DType.INT16, 513, -16384, 16383), DType.INT32
    agree(Op.TABLE, [(x, dtype), constant(table, dtype)], x.shape, result)


# ---- dtypes


CASTS = [
    (source, dtype)
    for source in ALL
    for dtype in ALL
    if source != dtype
    and not (DType.BOOL in (source, dtype) and {source, dtype} & set(FLOATS))
    and {source, dtype} != {DType.FP16, DType.BF16}
]


@pytest.mark.parametrize(("source", "dtype"), CASTS, ids=str)
def test_casts_truncate_or_round_to_even(source, dtype):
    x = random(seed_of(source, dtype), source, (4, 30), *((-300.0, 300.0) if source in FLOATS else ()))
    if source in FLOATS:
        x[0, :6] = returned(np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1000.0]), source)
    if dtype == DType.FP16 and source == DType.INT32:
        x = x % 60000
    if dtype == DType.BOOL:
        x[0] = 0
    agree(Op.CAST, [(x, source)], x.shape, dtype)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(
    ("scale32", "rounding"),
    [(False, Rounding.SINGLE_ROUND), (True, Rounding.SINGLE_ROUND), (True, Rounding.DOUBLE_ROUND)],
)
@pytest.mark.parametrize("source", [*INTEGERS, DType.INT48], ids=lambda dtype: dtype.name)
@dtype_names(*INTEGERS)
def test_rescale_is_exact_with_both_roundings(source, dtype, scale32, rounding, per_channel):
    if source == DType.INT48 and scale32:
        pytest.skip("int48 has multipliers of 16 bits")
    generator = seed_of(source, dtype, scale32, rounding, per_channel)
    x = random(generator, source, (6, 40))
    count, bits = (40 if per_channel else 1), 32 if scale32 else 16
    multiplier = generator.integers(2 ** (bits - 2), 2 ** (bits - 1), count)
    source_bits, result_bits = (48 if d == DType.INT48 else 8 * NUMPY[d].itemsize for d in (source, dtype))
    # The scaled values are a little wider than the result, to saturate, but fit 32 bits.
    shift = generator.integers(0, 3, count) + bits - 1 + max(source_bits - min(result_bits + 1, 30), 0)
    shift = np.maximum(shift, source_bits + 1 if scale32 else 2)
    zeros = [constant([number if d == DType.INT8 else 0], d) for number, d in ((-7, source), (9, dtype))]
    numbers = [constant(multiplier, DType.INT32 if scale32 else DType.INT16), constant(shift, DType.INT8)]
    attribute = Rescale(scale32, rounding, per_channel)
    agree(Op.RESCALE, [(x, source), *numbers, *zeros], x.shape, dtype, attribute)


@pytest.mark.parametrize("unsigned_input", [False, True])
@dtype_names(DType.INT8, DType.INT16)
def test_rescale_reads_and_writes_unsigned_integers(dtype, unsigned_input):
    x = random(seed_of(dtype, unsigned_input), dtype, (4, 60))
    zero = {DType.INT8: -116, DType.INT16: -32768}[dtype]
    zeros = [constant([zero if unsigned else 0], dtype) for unsigned in (unsigned_input, not unsigned_input)]
    numbers = [constant([1 << 30], DType.INT32), constant([30], DType.INT8)]
    attribute = Rescale(True, Rounding.SINGLE_ROUND, False, unsigned_input, not unsigned_input)
    agree(Op.RESCALE, [(x, dtype), *numbers, *zeros], x.shape, dtype, attribute)


# ---- reductions

REDUCTIONS = {
    Op.REDUCE_MAX: (*INTEGERS, *FLOATS),
    Op.REDUCE_MIN: (*INTEGERS, *FLOATS),
    Op.REDUCE_SUM: (DType.INT32, *FLOATS),
    Op.REDUCE_PRODUCT: FLOATS,
    Op.ARGMAX: (DType.INT8, DType.INT16, *FLOATS),
    Op.REDUCE_ALL: (DType.BOOL,),
    Op.REDUCE_ANY: (DType.BOOL,),
}


@pytest.mark.parametrize(
    ("op", "dtype"), [(op, dtype) for op, dtypes in REDUCTIONS.items() for dtype in dtypes], ids=str
)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reductions_of_every_axis(op, dtype, axis):
    limits = (-(2**28), 2**28) if dtype == DType.INT32 else ()
    x = random(seed_of(op, dtype, axis), dtype, (3, 4, 5), *limits)
    if dtype == DType.BOOL:
        x[0, 0], x[:, 0, 0], x[0, :, 0] = [[op == Op.REDUCE_ALL]] * 3
        x[1, 1], x[:, 1, 1], x[1, :, 1] = [[op == Op.REDUCE_ANY]] * 3
    shape = [size for dim, size in enumerate(x.shape) if dim != axis]
    has_mode = op in (Op.REDUCE_MAX, Op.REDUCE_MIN, Op.ARGMAX)
    attribute = ATTRIBUTES[op](axis, NanMode.PROPAGATE) if has_mode else ATTRIBUTES[op](axis)
    if op == Op.ARGMAX:
        agree(op, [(x, dtype)], shape, DType.INT32, attribute)
        return
    shape.insert(axis, 1)
    bound = None
    if dtype in FLOATS and op in (Op.REDUCE_SUM, Op.REDUCE_PRODUCT):
        magnitude = abs(held(x, dtype))
        whole = magnitude.sum(axis, keepdims=True) if op == Op.REDUCE_SUM else magnitude.prod(axis, keepdims=True)
        bound = x.shape[axis] * whole * 2.0 ** -FRACTION[dtype]
    agree(op, [(x, dtype)], shape, dtype, attribute, bound)


@operators(Op.REDUCE_MAX, Op.REDUCE_MIN)
@dtype_names(*FLOATS)
def test_nan_is_ignored_if_the_attribute_says_so(op, dtype):
    x = random(seed_of(op, dtype), dtype, (3, 4, 5))
    x[0, 1] = x[1] = returned(np.array([np.nan]), dtype)
    for mode in (NanMode.PROPAGATE, NanMode.IGNORE):
        agree(op, [(x, dtype)], (3, 1, 5), dtype, ATTRIBUTES[op](1, mode))
