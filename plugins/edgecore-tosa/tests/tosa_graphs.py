"""TOSA graphs made by hand, and what they compute in numpy."""

from __future__ import annotations

import numpy as np

from edgecore_tosa.graph import NUMPY, Graph, Operator, Tensor
from edgecore_tosa.schema import ATTRIBUTES, Clamp, Conv2d, DType, NanMode, Op, Rescale, Rounding


def call(graph: Graph, op: Op, inputs: list[Tensor], output: Tensor, attribute=None) -> Tensor:
    """Append an operator to the graph, and return its output."""
    graph.operators.append(Operator(op, attribute or ATTRIBUTES[op](), inputs, output))
    return output


def constant(values, dtype: DType) -> Tensor:
    array = np.array(values, NUMPY[dtype])
    return Tensor(array.shape, dtype, array)


def unary(op: Op, dtype: DType, shape=(2, 3), attribute=None) -> Graph:
    """A graph of one operator whose output is like its input."""
    graph = Graph([Tensor(shape, dtype)])
    graph.outputs = [call(graph, op, graph.inputs, Tensor(shape, dtype), attribute)]
    return graph


def binary(op: Op, dtype: DType, shape=(2, 3), second=None) -> Graph:
    """A graph of one operator with two inputs."""
    graph = Graph([Tensor(shape, dtype), Tensor(second or shape, dtype)])
    graph.outputs = [call(graph, op, list(graph.inputs), Tensor(shape, dtype))]
    return graph


CONV_ZERO, CONV_OUTPUT_ZERO, CONV_MULTIPLIER, CONV_SHIFT = -3, 4, 1518500250, 37
CONV_WEIGHTS = np.random.default_rng(0).integers(-127, 128, (5, 3, 3, 2), np.int8)
CONV_BIAS = np.random.default_rng(1).integers(-1000, 1000, 5, np.int32)


def convolution() -> Graph:
    """A 3x3 convolution of int8 with padding, RESCALE to int8 and CLAMP to 0..100."""
    graph = Graph([Tensor((1, 6, 7, 2), DType.INT8)])
    parameters = [constant(CONV_WEIGHTS, DType.INT8), constant(CONV_BIAS, DType.INT32)]
    zeros = [constant([CONV_ZERO], DType.INT8), constant([0], DType.INT8)]
    sums = call(
        graph,
        Op.CONV2D,
        [*graph.inputs, *parameters, *zeros],
        Tensor((1, 6, 7, 5), DType.INT32),
        Conv2d([1, 1, 1, 1], [1, 1], [1, 1], acc_type=DType.INT32),
    )
    scaled = call(
        graph,
        Op.RESCALE,
        [
            sums,
            constant([CONV_MULTIPLIER], DType.INT32),
            constant([CONV_SHIFT], DType.INT8),
            constant([0], DType.INT32),
            constant([CONV_OUTPUT_ZERO], DType.INT8),
        ],
        Tensor(sums.shape, DType.INT8),
        Rescale(scale32=True, rounding_mode=Rounding.SINGLE_ROUND),
    )
    limits = [np.array([value], np.int8).tobytes() for value in (0, 100)]
    clamped = call(
        graph, Op.CLAMP, [scaled], Tensor(sums.shape, DType.INT8), Clamp(*limits, nan_mode=NanMode.PROPAGATE)
    )
    graph.outputs = [clamped]
    return graph


def convolution_in_numpy(image: np.ndarray) -> np.ndarray:
    """Return the result of `convolution`."""
    padded = np.pad(image.astype(np.int64) - CONV_ZERO, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))  # n, y, x, c, ky, kx
    sums = np.einsum("nyxcij,oijc->nyxo", windows, CONV_WEIGHTS.astype(np.int64)) + CONV_BIAS
    scaled = (sums * CONV_MULTIPLIER + (1 << (CONV_SHIFT - 1)) >> CONV_SHIFT) + CONV_OUTPUT_ZERO
    return np.clip(np.clip(scaled, -128, 127), 0, 100).astype(np.int8)
