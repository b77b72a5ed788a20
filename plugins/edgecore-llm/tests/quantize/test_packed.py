"""Rounding and the packed layout."""

from __future__ import annotations

import pytest
import torch

from edgecore_llm.quantize.packed import QuantizedMatrix, linear, pack, packed_shape, round_rows, unpack
from edgecore_llm.quantize.rounding import quantize


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("outputs", "inputs"), [(16, 32), (1, 1), (70, 200), (33, 96)])
def test_unpack_returns_what_was_packed(bits: int, outputs: int, inputs: int) -> None:
    low, high = (-8, 8) if bits == 4 else (-127, 128)
    torch.manual_seed(outputs)
    matrix = QuantizedMatrix(
        torch.randint(low, high, (outputs, inputs), dtype=torch.int8),
        torch.rand(outputs, -(-inputs // 32)).to(torch.float16),
        bits,
    )
    packed = pack(matrix)
    assert tuple(packed.shape) == packed_shape(outputs, inputs, bits)
    result = unpack(packed, outputs, inputs)
    assert result.bits == bits
    assert torch.equal(result.values, matrix.values)
    assert torch.equal(result.scales, matrix.scales)


def test_layout_of_a_block() -> None:
    """The bytes that native/src/packed.h describes."""
    values = torch.zeros(16, 32, dtype=torch.int8)
    values[3, 5], values[3, 21] = 2, -3
    packed = pack(QuantizedMatrix(values, torch.ones(16, 1, dtype=torch.float16), 4))[0, 0]
    assert packed[64 + 4 * 3 + 1] == (2 + 8) | (-3 + 8) << 4
    assert packed[0] == 8 | 8 << 4
    assert packed[256:].tolist() == [0x00, 0x3C] * 16
    packed = pack(QuantizedMatrix(values, torch.ones(16, 1, dtype=torch.float16), 8))[0, 0]
    assert packed[64 + 4 * 3 + 1] == 130
    assert packed[5 * 64 + 4 * 3 + 1] == 125


def test_four_bits_round_better_than_the_largest_magnitude() -> None:
    torch.manual_seed(0)
    weight = torch.randn(64, 256)
    matrix = quantize(weight, 4)
    groups = weight.reshape(64, 8, 32)
    scales = groups.abs().amax(-1, keepdim=True) / 7
    plain = ((groups / scales).round() * scales - groups).square().mean()
    assert (matrix.dequantize() - weight).square().mean() < 0.85 * plain


def test_larger_groups_share_a_scale() -> None:
    matrix = quantize(torch.randn(16, 320), 8, group=128)
    scales = matrix.scales.unflatten(1, (-1, 2))
    assert matrix.scales.shape == (16, 10)
    assert torch.equal(scales[..., 0], scales[..., 1])
    row = quantize(torch.randn(16, 320), 8, group=0)
    assert torch.equal(row.scales, row.scales[:, :1].expand(16, 10))


@pytest.mark.parametrize("bits", [4, 8])
def test_zeros_and_tiny_weights(bits: int) -> None:
    assert torch.equal(quantize(torch.zeros(4, 64), bits).dequantize(), torch.zeros(4, 64))
    tiny = quantize(torch.full((1, 32), 1e-7), bits)
    assert tiny.dequantize().abs().max() <= 2e-6


def test_wrong_matrices_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="bits must be 4 or 8, not 3"):
        quantize(torch.zeros(1, 32), 3)
    with pytest.raises(ValueError, match="group must be 0 or a multiple of 32, not 48"):
        quantize(torch.zeros(1, 96), 4, group=48)
    with pytest.raises(ValueError, match="does not have 17 outputs and 32 inputs"):
        unpack(pack(quantize(torch.zeros(16, 32), 4)), 17, 32)
    with pytest.raises(ValueError, match="a packed matrix is a uint8 tensor"):
        unpack(torch.zeros(3), 1, 1)


def test_rounded_rows_are_within_half_a_step() -> None:
    torch.manual_seed(1)
    x = torch.randn(3, 70)
    values, scales = round_rows(x)
    restored = (values.float() * scales[..., None]).flatten(1)[:, :70]
    steps = scales.repeat_interleave(32, 1)[:, :70]
    assert ((restored - x).abs() <= 0.5001 * steps).all()
    assert torch.isnan(round_rows(torch.tensor([[1.0, torch.inf]]))[1]).all()


def test_reference_product_is_within_the_steps_of_both_sides() -> None:
    torch.manual_seed(2)
    weight, x = torch.randn(48, 128), torch.randn(5, 128)
    matrix = quantize(weight, 8)
    steps = round_rows(x)[1].repeat_interleave(32, 1)
    rounded_weight = matrix.dequantize()
    bound = 0.51 * (steps @ rounded_weight.abs().T + x.abs() @ matrix.scales.float().repeat_interleave(32, 1).T)
    assert ((linear(x, pack(matrix), 48) - x @ weight.T).abs() <= bound).all()
