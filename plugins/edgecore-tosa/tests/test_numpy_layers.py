"""Layers, pooling, resizing and moves of TOSA in numpy and in Arm's reference model; see `test_numpy`."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
import tosa_numpy
from tosa_compare import ALL, FRACTION, INTEGERS, agree, dtype_names, random, seed_of
from tosa_graphs import binary, call, constant
from tosa_numpy_layers import FLOATS, held

from edgecore_tosa.graph import Graph, Tensor
from edgecore_tosa.schema import (
    ATTRIBUTES,
    ArithmeticRightShift,
    AvgPool2d,
    Conv2d,
    Conv3d,
    DepthwiseConv2d,
    DType,
    MaxPool2d,
    NanMode,
    Op,
    Resize,
    ResizeMode,
    Transpose,
    TransposeConv2d,
)
from edgecore_tosa.simulator import SimulationError, Simulator

NUMBERS = (DType.INT8, DType.INT16, *FLOATS)
# (input, weight, accumulator, result)
LAYERS = [
    (DType.INT8, DType.INT8, DType.INT32, DType.INT32),
    (DType.INT8, DType.INT4, DType.INT32, DType.INT32),
    (DType.INT16, DType.INT8, DType.INT48, DType.INT48),
    (DType.FP32, DType.FP32, DType.FP32, DType.FP32),
    (DType.FP16, DType.FP16, DType.FP32, DType.FP16),
    (DType.FP16, DType.FP16, DType.FP16, DType.FP16),
    (DType.BF16, DType.BF16, DType.FP32, DType.BF16),
]
layers = pytest.mark.parametrize("dtypes", LAYERS, ids=lambda dtypes: "-".join(dtype.name for dtype in dtypes))


def layer(op: Op, shapes, result, dtypes, attribute) -> None:
    """Compare a layer; shapes are those of the input, the weight and the bias."""
    source, weight, accumulator, dtype = dtypes
    attribute.acc_type = accumulator
    generator = seed_of(op, shapes, dtypes)
    arrays = [random(generator, one, shape) for one, shape in zip((source, weight), shapes, strict=False)]
    bias = random(generator, dtype, shapes[2], *((-(2**20), 2**20) if dtype not in FLOATS else ()))
    zeros = [constant([-11 if source == DType.INT8 else 0], source), constant([0], weight)]
    if weight == DType.INT8 and source == DType.INT8:
        zeros[1] = constant([3], weight)
    operands = [(arrays[0], source), (arrays[1], weight), (bias, dtype), *zeros]
    bound = None
    if dtype in FLOATS:
        # Numbers are at most 4, so each product is at most 16 and the bias at most 4.
        count = prod(shapes[1][1:]) if op != Op.DEPTHWISE_CONV2D else prod(shapes[1][:2])
        largest = 16 * count + 4
        steps = count / 2 * 2.0 ** -FRACTION[accumulator] + 2.0 ** -FRACTION[dtype]
        bound = np.full(result, largest * steps)
    agree(op, operands, result, dtype, attribute, bound)


FORMS = [
    ([0, 0, 0, 0], [1, 1], [1, 1], (6, 7)),
    ([1, 1, 1, 1], [1, 1], [1, 1], (6, 7)),
    ([1, 0, 2, 1], [2, 3], [1, 1], (6, 6)),
    ([2, 1, 0, 2], [1, 2], [2, 1], (6, 7)),
]


def window_count(size, before, after, kernel, stride, dilation):
    return (size + before + after - dilation * (kernel - 1) - 1) // stride + 1


@layers
@pytest.mark.parametrize(("pad", "stride", "dilation", "size"), FORMS)
def test_convolutions_and_depthwise_ones(pad, stride, dilation, size, dtypes):
    kernel = (3, 3)
    counts = [
        window_count(size[dim], *pad[2 * dim : 2 * dim + 2], kernel[dim], stride[dim], dilation[dim])
        for dim in range(2)
    ]
    form = (pad, stride, dilation)
    layer(Op.CONV2D, ((2, *size, 3), (4, *kernel, 3), (4,)), (2, *counts, 4), dtypes, Conv2d(*form))
    layer(Op.CONV2D, ((2, *size, 3), (4, *kernel, 3), (1,)), (2, *counts, 4), dtypes, Conv2d(*form))
    shapes = ((2, *size, 3), (*kernel, 3, 2), (6,))
    layer(Op.DEPTHWISE_CONV2D, shapes, (2, *counts, 6), dtypes, DepthwiseConv2d(*form))


@layers
def test_convolutions_of_three_dims(dtypes):
    attribute = Conv3d([1, 0, 1, 1, 0, 1], [1, 2, 1], [2, 1, 1])
    layer(Op.CONV3D, ((1, 4, 5, 5, 2), (3, 2, 3, 2, 2), (3,)), (1, 3, 3, 5, 3), dtypes, attribute)


@layers
@pytest.mark.parametrize("pad", [[0, 0, 0, 0], [1, 2, 0, 1], [-1, -2, 1, -1]])
def test_transposed_convolutions_pad_or_cut_the_result(pad, dtypes):
    result = (1, 3 * 2 + pad[0] + pad[1] + 3, 2 * 3 + pad[2] + pad[3] + 2, 3)
    shapes = ((1, 4, 3, 2), (3, 3, 2, 2), (3,))
    layer(Op.TRANSPOSE_CONV2D, shapes, result, dtypes, TransposeConv2d(pad, [2, 3]))


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (DType.INT8, DType.INT32),
        (DType.INT16, DType.INT48),
        (DType.FP32, DType.FP32),
        (DType.FP16, DType.FP16),
        (DType.FP16, DType.FP32),
        (DType.BF16, DType.FP32),
    ],
    ids=str,
)
def test_products_of_matrices(dtype, result):
    generator = seed_of(dtype, result)
    a, b = random(generator, dtype, (2, 3, 5)), random(generator, dtype, (2, 5, 4))
    zeros = [constant([number if dtype == DType.INT8 else 0], dtype) for number in (-9, 4)]
    bound = None
    if result in FLOATS:
        bound = 5 * (abs(held(a, dtype)) @ abs(held(b, dtype))) * 2.0 ** -FRACTION[result]
    agree(Op.MATMUL, [(a, dtype), (b, dtype), *zeros], (2, 3, 4), result, None, bound)


# ---- pooling and resizing


@dtype_names(*NUMBERS)
@pytest.mark.parametrize(
    ("kernel", "stride", "pad"), [([2, 3], [2, 1], [0] * 4), ([3, 3], [1, 2], [1, 1, 2, 1]), ([6, 6], [1, 1], [0] * 4)]
)
def test_averages_and_maxima_of_windows(kernel, stride, pad, dtype):
    x = random(seed_of(kernel, dtype), dtype, (2, 6, 6, 3))
    counts = [window_count(6, *pad[2 * dim : 2 * dim + 2], kernel[dim], stride[dim], 1) for dim in range(2)]
    shape = (2, *counts, 3)
    agree(Op.MAX_POOL2D, [(x, dtype)], shape, dtype, MaxPool2d(kernel, stride, pad, NanMode.PROPAGATE))
    zeros = [constant([number if dtype == DType.INT8 else 0], dtype) for number in (-20, 7)]
    bound = None
    if dtype in FLOATS:
        bound = np.full(shape, 4 * (prod(kernel) / 2 + 1) * 2.0 ** -FRACTION[dtype])
    for accumulator in {DType.FP16: (DType.FP16, DType.FP32)}.get(
        dtype, (DType.FP32 if dtype in FLOATS else DType.INT32,)
    ):
        attribute = AvgPool2d(kernel, stride, pad, accumulator)
        agree(Op.AVG_POOL2D, [(x, dtype), *zeros], shape, dtype, attribute, bound)


RESIZES = [  # (scale, offset, border): twice as large with aligned centers or corners, smaller, another factor per dim
    ([4, 2, 4, 2], [-1, -1], [1, 1]),
    ([8, 4, 6, 2], [0, 0], [0, 0]),
    ([2, 4, 2, 4], [1, 1], [-1, -1]),
    ([3, 2, 5, 4], [0, 1], [0, 1]),
]


@dtype_names(*NUMBERS)
@pytest.mark.parametrize("mode", [ResizeMode.NEAREST, ResizeMode.BILINEAR], ids=lambda mode: mode.name)
@pytest.mark.parametrize(("scale", "offset", "border"), RESIZES)
def test_resize_by_rational_factors(scale, offset, border, mode, dtype):
    x = random(seed_of(scale, mode, dtype), dtype, (2, 5, 5, 3))
    shape = [2, 0, 0, 3]
    for dim in range(2):
        covered = 4 * scale[2 * dim] - offset[dim] + border[dim]
        shape[1 + dim] = covered // scale[2 * dim + 1] + 1
        border = [*border]
        border[dim] -= covered % scale[2 * dim + 1]
    result = dtype
    if mode == ResizeMode.BILINEAR:
        result = {DType.INT8: DType.INT32, DType.INT16: DType.INT48}.get(dtype, dtype)
    bound = np.full(shape, 4 * 4 * 2.0 ** -FRACTION[dtype]) if dtype in FLOATS and mode == ResizeMode.BILINEAR else None
    sizes = [constant(numbers, DType.SHAPE) for numbers in (scale, offset, border)]
    agree(Op.RESIZE, [(x, dtype), *sizes], shape, result, Resize(mode), bound)


# ---- moves


def sizes(*numbers) -> Tensor:
    return constant(numbers, DType.SHAPE)


MOVES = {
    Op.IDENTITY: ((), (2, 3, 4), None),
    Op.RESHAPE: ((sizes(6, 4),), (6, 4), None),
    Op.REVERSE: ((), (2, 3, 4), ATTRIBUTES[Op.REVERSE](1)),
    Op.SLICE: ((sizes(0, 1, 2), sizes(2, 2, 1)), (2, 2, 1), None),
    Op.TILE: ((sizes(1, 3, 2),), (2, 9, 8), None),
    Op.TRANSPOSE: ((), (4, 2, 3), Transpose([2, 0, 1])),
}


@pytest.mark.parametrize("op", MOVES, ids=lambda op: op.name)
@dtype_names(*ALL)
def test_moves_of_elements(op, dtype):
    more, shape, attribute = MOVES[op]
    agree(op, [(random(seed_of(op, dtype), dtype, (2, 3, 4)), dtype), *more], shape, dtype, attribute)


@dtype_names(*ALL)
def test_concatenation_and_padding(dtype):
    generator = seed_of(dtype)
    parts = [(random(generator, dtype, (2, size, 4)), dtype) for size in (1, 3, 2)]
    agree(Op.CONCAT, parts, (2, 6, 4), dtype, ATTRIBUTES[Op.CONCAT](1))
    value = constant(random(generator, dtype, (1,)), dtype)
    agree(Op.PAD, [parts[1], sizes(0, 1, 2, 0, 3, 1), value], (3, 5, 8), dtype)


@dtype_names(*INTEGERS, *FLOATS)
def test_gather_and_scatter_of_rows(dtype):
    generator = seed_of(dtype)
    values, rows = random(generator, dtype, (2, 5, 3)), random(generator, dtype, (2, 4, 3))
    indices = np.stack([generator.permutation(5)[:4] for _ in range(2)]).astype(np.int32)
    agree(Op.GATHER, [(values, dtype), (indices, DType.INT32)], (2, 4, 3), dtype)
    agree(Op.SCATTER, [(values, dtype), (indices, DType.INT32), (rows, dtype)], (2, 5, 3), dtype)


# ---- results that the specification does not define


def test_an_undefined_result_is_refused_by_both():
    big = np.full((2, 3), 2**31 - 1, np.int32)
    graphs = [(binary(Op.ADD, DType.INT32), [big, big]), (binary(Op.INTDIV, DType.INT32), [big, 0 * big])]
    shift = Graph([Tensor((2, 3), DType.INT32)])
    operands = [*shift.inputs, constant([[32]], DType.INT32)]
    shift.outputs = [
        call(shift, Op.ARITHMETIC_RIGHT_SHIFT, operands, Tensor((2, 3), DType.INT32), ArithmeticRightShift(True))
    ]
    for graph, arrays in [*graphs, (shift, [big])]:
        with pytest.raises(tosa_numpy.UndefinedResult):
            tosa_numpy.run(graph.to_bytes(), arrays)
        with pytest.raises(SimulationError):
            Simulator(graph.to_bytes()).run(*arrays)
