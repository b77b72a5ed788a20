"""Run one operator of TOSA in numpy and in Arm's reference model."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import tosa_numpy
from tosa_graphs import call
from tosa_numpy_layers import FLOATS, RANGES, held, returned

from edgecore_tosa.graph import NUMPY, Graph, Tensor
from edgecore_tosa.schema import DType, Op
from edgecore_tosa.simulator import Simulator

INTEGERS = (DType.INT8, DType.INT16, DType.INT32)
ALL = (DType.BOOL, *INTEGERS, *FLOATS)
FRACTION = {DType.FP32: 23, DType.FP16: 10, DType.BF16: 7}


def seed_of(*names) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(names).encode()))


def random(generator, dtype: DType, shape, low=None, high=None) -> np.ndarray:
    """Random elements of a dtype; integers from all its range if there are no limits."""
    if dtype in FLOATS:
        values = generator.uniform(-4 if low is None else low, 4 if high is None else high, shape)
        return returned(values, dtype)
    if dtype == DType.BOOL:
        return generator.integers(0, 2, shape).astype(bool)
    lowest, highest = RANGES[dtype]
    values = generator.integers(lowest if low is None else low, (highest if high is None else high) + 1, shape)
    return values.astype(NUMPY[dtype])


def both(op: Op, operands, shape, dtype: DType, attribute=None):
    """The result of an operator in numpy and in the reference model; (array, dtype) is an input, a Tensor a constant."""
    graph, arrays, tensors = Graph(), [], []
    for operand in operands:
        if isinstance(operand, tuple):
            graph.inputs.append(Tensor(operand[0].shape, operand[1]))
            arrays.append(operand[0])
        tensors.append(graph.inputs[-1] if isinstance(operand, tuple) else operand)
    graph.outputs = [call(graph, op, tensors, Tensor(tuple(shape), dtype), attribute)]
    data = graph.to_bytes()
    (ours,), (theirs,) = tosa_numpy.run(data, arrays), Simulator(data).run(*arrays)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape) == (NUMPY[dtype], tuple(shape))
    return ours, theirs


def agree(op: Op, operands, shape, dtype: DType, attribute=None, magnitude=None) -> None:
    """Compare an operator; `magnitude` is the greatest allowed difference of real numbers."""
    ours, theirs = both(op, operands, shape, dtype, attribute)
    if dtype not in FLOATS or magnitude is None:
        np.testing.assert_array_equal(held(ours, dtype), held(theirs, dtype))
        assert np.unique(ours).size > 1
        return
    ours, theirs = held(ours, dtype), held(theirs, dtype)
    assert np.isfinite(ours).all() and (abs(ours - theirs) <= magnitude).all(), abs(ours - theirs).max()


def dtype_names(*dtypes):
    return pytest.mark.parametrize("dtype", dtypes, ids=lambda dtype: dtype.name)


def operators(*names: Op):
    return pytest.mark.parametrize("op", names, ids=lambda op: op.name)
