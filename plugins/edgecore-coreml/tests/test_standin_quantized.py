"""The stand-in's operators of quantization beside torch's, and beside an example of MIL's specification."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from coremltools.optimize import _utils as coremltools_utils

from edgecore_coreml.conversion.quantized import block_weight, table_weight
from edgecore_coreml_standin.quantized import (
    constexpr_affine_dequantize,
    constexpr_blockwise_shift_scale,
    constexpr_lut_to_dense,
    dequantize,
    quantize,
)

library = torch.ops.quantized_decomposed
LIMITS = {torch.int8: (-128, 127), torch.uint8: (0, 255)}
X = torch.cat([torch.randn(6, 5) * 10, torch.tensor([[0.25, 0.75, -0.25, 1e6, -1e6]])])  # ties, and beyond the limits


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("zero", [None, 3])
def test_quantize_with_one_scale(dtype, zero):
    name = str(dtype).removeprefix("torch.")
    point = None if zero is None else torch.tensor(zero, dtype=dtype)
    got = quantize(X, torch.tensor(0.5), name, point)
    want = library.quantize_per_tensor(X, 0.5, zero or 0, *LIMITS[dtype], dtype)
    assert got.dtype == dtype and torch.equal(got, want)
    back = dequantize(got, torch.tensor(0.5), point)
    assert torch.equal(back, library.dequantize_per_tensor(want, 0.5, zero or 0, *LIMITS[dtype], dtype))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_quantize_with_a_scale_for_each_index_of_a_dim(axis):
    scales = torch.rand(X.shape[axis]) + 0.1
    zeros = torch.randint(-5, 5, scales.shape, dtype=torch.int8)
    got = quantize(X, scales, "int8", zeros, torch.tensor(axis))
    want = library.quantize_per_channel(X, scales, zeros, axis % 2, -128, 127, torch.int8)
    assert (got.int() - want.int()).abs().max() <= 1, "torch multiplies by the reciprocal"
    # torch subtracts zero points of int8 as int8, with overflow.
    expected = library.dequantize_per_channel(got, scales, zeros.long(), axis % 2, -128, 127, torch.int8)
    for operator in (
        dequantize(got, scales, zeros, torch.tensor(axis)),
        constexpr_affine_dequantize(got, zeros, scales, torch.tensor(axis)),
    ):
        torch.testing.assert_close(operator, expected)


def test_an_affine_weight_with_one_scale():
    data = torch.randint(0, 255, (3, 4), dtype=torch.uint8)
    got = constexpr_affine_dequantize(data, torch.tensor(7, dtype=torch.uint8), torch.tensor(0.1), torch.tensor(0))
    torch.testing.assert_close(got, library.dequantize_per_tensor(data, 0.1, 7, 0, 255, torch.uint8))


@pytest.mark.parametrize("has_offset", [False, True])
def test_a_weight_with_a_scale_for_each_block(has_offset):
    data, scales = torch.randint(-8, 8, (6, 12), dtype=torch.int8), torch.rand(6, 3)
    zeros = torch.randint(-8, 8, (6, 3), dtype=torch.int8) if has_offset else None
    want = library.dequantize_per_channel_group(data, scales, zeros, -8, 7, torch.int8, 4, torch.float32)
    assert torch.equal(constexpr_blockwise_shift_scale(data, scales, zeros), want)
    for shape in ((6, 12), (6, 6, 2), (6, 3, 2, 2)):
        blocks = [*scales.shape, *[1] * (len(shape) - 2)]
        got = constexpr_blockwise_shift_scale(
            data.reshape(shape), scales.reshape(blocks), None if zeros is None else zeros.reshape(blocks)
        )
        assert torch.equal(got, want.reshape(shape))
        assert torch.equal(block_weight(data, scales, 0 if zeros is None else zeros, shape, 4), got)


def test_a_block_may_be_a_part_of_each_dim():
    data, scale = torch.ones(4, 6, dtype=torch.int8), torch.arange(6.0).reshape(2, 3)
    got = constexpr_blockwise_shift_scale(data, scale)
    assert got[:, ::2].tolist() == [[0, 1, 2], [0, 1, 2], [3, 4, 5], [3, 4, 5]]


@pytest.mark.parametrize("block", [(-1, -1), (2, -1), (-1, 5)])
def test_indices_into_tables(block):
    indices = torch.randint(0, 8, (6, 10), dtype=torch.uint8)
    tables = torch.randn(
        *(1 if size == -1 else total // size for size, total in zip(block, (6, 10), strict=True)), 8, 1
    )
    want = torch.ops.quant.dequantize_codebook(indices.int(), tables, 3, list(block))
    assert torch.equal(constexpr_lut_to_dense(indices, tables), want)
    assert torch.equal(table_weight(indices, tables), want)


def test_the_examples_of_the_specification():
    indices = torch.tensor([2, 3, 3, 0, 1, 0, 3, 0, 2, 1, 0, 3]).reshape(6, 2)
    tables = torch.tensor([1.0, 5, 9, 13, 2, 10, 18, 26]).reshape(2, 1, 4, 1)
    got = constexpr_lut_to_dense(indices, tables)
    assert got.tolist() == [[9, 13], [13, 1], [5, 1], [26, 2], [18, 10], [2, 26]]
    # iOS 16: 2 bits each, the lowest first; the last byte has one index.
    packed, table = torch.tensor([0b01101100, 0b11], dtype=torch.uint8), torch.tensor([1.0, 5, 9, 13])
    assert constexpr_lut_to_dense(packed, table, torch.tensor([5])).tolist() == [1, 13, 9, 5, 13]


@pytest.mark.parametrize("bits", [1, 2, 4, 6, 8])
def test_packed_indices_are_unpacked(bits):
    indices, table = np.random.default_rng(0).integers(0, 1 << bits, (3, 7), np.uint8), torch.randn(1 << bits)
    packed = torch.from_numpy(coremltools_utils.pack_elements_into_bits(indices.ravel(), bits))
    assert torch.equal(
        constexpr_lut_to_dense(packed, table, torch.tensor([3, 7])), table[torch.from_numpy(indices).int()]
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_tables_of_vectors(axis):
    indices, table = torch.tensor([[0, 1], [1, 1]]), torch.tensor([[1.0, 2], [3, 4]]).reshape(1, 1, 2, 2)
    got = constexpr_lut_to_dense(indices, table, vector_axis=torch.tensor(axis))
    rows = [[1, 2, 3, 4], [3, 4, 3, 4]] if axis else [[1, 3], [2, 4], [3, 3], [4, 4]]
    assert got.tolist() == rows
