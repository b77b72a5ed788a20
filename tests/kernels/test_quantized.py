"""Compare quantized operators with PyTorch's functional ones, and operators on packed weights with unpacked weights."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from native import KernelError, Library

ops = torch.ops.quantized_decomposed
BOUNDS = {
    torch.int8: (-128, 127),
    torch.uint8: (0, 255),
    torch.int16: (-(2**15), 2**15 - 1),
    torch.int32: (-(2**31), 2**31 - 1),
}


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
@pytest.mark.parametrize("real", [torch.float32, torch.float16, torch.bfloat16])
def test_per_tensor_quantization_equals_pytorch(library: Library, dtype: torch.dtype, real: torch.dtype) -> None:
    x, bounds = normal(3, 5, 700, dtype=real), BOUNDS[dtype]
    q, y = torch.empty_like(x, dtype=dtype), torch.empty_like(x, dtype=torch.float32)
    library.call("quantized_decomposed::quantize_per_tensor.out", x, 0.05, 3, *bounds, dtype, q)
    assert torch.equal(q, ops.quantize_per_tensor(x, 0.05, 3, *bounds, dtype))
    library.call("quantized_decomposed::dequantize_per_tensor.out", q, 0.05, 3, *bounds, dtype, None, y)
    assert torch.equal(y, ops.dequantize_per_tensor(q, 0.05, 3, *bounds, dtype))


def test_per_tensor_quantization_with_scales_as_tensors_equals_pytorch(library: Library) -> None:
    x = normal(1, 4, 5, 6).contiguous(memory_format=torch.channels_last)
    scale, zero = torch.tensor([0.07], dtype=torch.float64), torch.tensor([-5])
    q, y = torch.empty_like(x, dtype=torch.int8), torch.empty_like(x)
    library.call("quantized_decomposed::quantize_per_tensor.Tensor_out", x, scale, zero, -128, 127, torch.int8, q)
    assert torch.equal(q, ops.quantize_per_tensor(x, 0.07, -5, -128, 127, torch.int8))
    library.call(
        "quantized_decomposed::dequantize_per_tensor.Tensor_out", q, scale, zero, -128, 127, torch.int8, None, y
    )
    assert torch.equal(y, ops.dequantize_per_tensor(q, 0.07, -5, -128, 127, torch.int8))


def test_ties_are_rounded_to_even_and_nan_and_infinities_saturate(library: Library) -> None:
    x = torch.tensor([0.5, 1.5, -0.5, float("inf"), -float("inf"), float("nan")])
    q = torch.empty(6, dtype=torch.int8)
    library.call("quantized_decomposed::quantize_per_tensor.out", x, 1.0, 0, -128, 127, torch.int8, q)
    assert q.tolist() == [0, 2, 0, 127, -128, -128]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("scales_dtype", [torch.float32, torch.float64])
def test_per_channel_quantization_equals_pytorch(library: Library, axis: int, scales_dtype: torch.dtype) -> None:
    x = normal(3, 4, 5)
    count = x.shape[axis]
    scales = torch.linspace(0.01, 0.3, count, dtype=scales_dtype)
    zeros = torch.arange(count) - 2
    q, y = torch.empty_like(x, dtype=torch.int8), torch.empty_like(x)
    library.call("quantized_decomposed::quantize_per_channel.out", x, scales, zeros, axis, -128, 127, torch.int8, q)
    assert torch.equal(q, ops.quantize_per_channel(x, scales, zeros, axis % 3, -128, 127, torch.int8))
    library.call(
        "quantized_decomposed::dequantize_per_channel.out", q, scales, zeros, axis, -128, 127, torch.int8, None, y
    )
    torch.testing.assert_close(
        y, ops.dequantize_per_channel(q, scales, zeros, axis % 3, -128, 127, torch.int8), rtol=1e-6, atol=0
    )


def test_per_token_quantization_equals_pytorch(library: Library) -> None:
    x = normal(2, 3, 8)
    scales, zeros = torch.empty(2, 3, 1, dtype=torch.float64), torch.empty(2, 3, 1, dtype=torch.int64)
    library.call("quantized_decomposed::choose_qparams_per_token_asymmetric.out", x, torch.int8, scales, zeros)
    expected = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
    torch.testing.assert_close(scales, expected[0])
    assert torch.equal(zeros, expected[1])
    q, y = torch.empty_like(x, dtype=torch.int8), torch.empty_like(x)
    library.call("quantized_decomposed::quantize_per_token.out", x, scales, zeros, -128, 127, torch.int8, q)
    assert torch.equal(q, ops.quantize_per_token(x, scales, zeros, -128, 127, torch.int8))
    library.call(
        "quantized_decomposed::dequantize_per_token.out", q, scales, zeros, -128, 127, torch.int8, torch.float32, y
    )
    assert torch.equal(y, ops.dequantize_per_token(q, scales, zeros, -128, 127, torch.int8, torch.float32))


@pytest.mark.parametrize("shift", [0.0, 10.0, -10.0])
def test_chosen_scales_and_zero_points_equal_pytorch(library: Library, shift: float) -> None:
    x = normal(4, 5) + shift
    scale, zero = torch.empty(1, dtype=torch.float64), torch.empty(1, dtype=torch.int64)
    library.call("quantized_decomposed::choose_qparams.Tensor_out", x, -128, 127, 1e-5, torch.int8, scale, zero)
    expected = ops.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
    torch.testing.assert_close(scale, expected[0])
    assert torch.equal(zero, expected[1])


def test_a_quantized_addition_equals_pytorch(library: Library) -> None:
    a = torch.randint(-128, 128, (3, 4), dtype=torch.int8)
    b = torch.randint(-128, 128, (4,), dtype=torch.int8)
    out = torch.empty(3, 4, dtype=torch.int8)
    library.call("quantized_decomposed::add.out", a, 0.1, 2, -128, 127, b, 0.3, -4, -128, 127, 0.25, 1, -128, 127, out)
    total = ops.dequantize_per_tensor(a, 0.1, 2, -128, 127, torch.int8) + ops.dequantize_per_tensor(
        b, 0.3, -4, -128, 127, torch.int8
    )
    expected = ops.quantize_per_tensor(total, 0.25, 1, -128, 127, torch.int8)
    assert (out.int() - expected.int()).abs().max() <= 1  # the sum is rounded differently
    assert (out == expected).double().mean() > 0.9


EMBEDDINGS = {
    2: ("quantized_decomposed::embedding_2bit.out", "quantized_decomposed::embedding_2bit.dtype_out"),
    4: ("quantized_decomposed::embedding_4bit.out", "quantized_decomposed::embedding_4bit.dtype_out"),
    8: ("quantized_decomposed::embedding_byte.out", "quantized_decomposed::embedding_byte.dtype_out"),
}


def pack(entries: torch.Tensor, bits: int) -> torch.Tensor:
    shifted = (entries + 2 ** (bits - 1)).to(torch.uint8)
    if bits == 8:
        return entries.to(torch.int8)
    if bits == 4:
        return shifted[:, 0::2] << 4 | shifted[:, 1::2]
    return shifted[:, 0::4] | shifted[:, 1::4] << 2 | shifted[:, 2::4] << 4 | shifted[:, 3::4] << 6


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("groups", [1, 2, 16])
@pytest.mark.parametrize("zeros", [False, True])
def test_a_quantized_embedding_equals_its_unpacked_weights(
    library: Library, bits: int, groups: int, zeros: bool
) -> None:
    entries = torch.randint(-(2 ** (bits - 1)), 2 ** (bits - 1), (6, 16))
    scales = torch.rand(6, groups) + 0.1
    points = torch.rand(6, groups) if zeros else None
    indices = torch.tensor([[0, 5, 2]])
    grouped = entries.reshape(6, groups, -1) - (0 if points is None else points[:, :, None])
    expected = (grouped * scales[:, :, None]).reshape(6, 16)[indices]
    name, name_with_dtype = EMBEDDINGS[bits]
    min_entry, max_entry = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    scales_arg = scales.squeeze(1) if groups == 1 else scales
    points_arg = points if points is None or groups > 1 else points.squeeze(1)
    arguments = (pack(entries, bits), scales_arg, points_arg, min_entry, max_entry, indices)
    out, fp16_out = torch.empty(1, 3, 16), torch.empty(1, 3, 16, dtype=torch.float16)
    library.call(name, *arguments, out)
    torch.testing.assert_close(out, expected)
    library.call(name_with_dtype, *arguments, torch.float16, fp16_out)
    torch.testing.assert_close(fp16_out, expected.half())


@pytest.mark.parametrize("groups", [1, 4])
def test_a_linear_layer_with_integer_weights_equals_its_unpacked_weights(library: Library, groups: int) -> None:
    weight = torch.randint(-128, 128, (7, 40), dtype=torch.int8)
    scales = torch.rand(7, groups)
    x, out = normal(2, 3, 40), torch.empty(2, 3, 7)
    exact = (weight.reshape(7, groups, -1) * scales[:, :, None]).reshape(7, 40)
    scales_arg = scales.squeeze(1) if groups == 1 else scales
    library.call("quantized_decomposed::mixed_linear.out", x, weight, scales_arg, None, None, out)
    torch.testing.assert_close(out, x @ exact.T, rtol=1e-5, atol=1e-3)


def test_a_matmul_with_integer_weights_equals_its_unpacked_weights(library: Library) -> None:
    weight, scales = torch.randint(-128, 128, (40, 7), dtype=torch.int8), torch.rand(40)
    x, out = normal(3, 40), torch.empty(3, 7)
    library.call("quantized_decomposed::mixed_mm.out", x, weight, scales, None, out)
    torch.testing.assert_close(out, x @ (weight * scales[:, None]), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("quantize_per_tensor.out", (torch.ones(2), 1.0, 0, 5, 4, torch.int8, torch.ones(2, dtype=torch.int8)), "must not be greater"),
        ("quantize_per_channel.out", (torch.ones(2, 3), torch.ones(2), torch.ones(2), 1, 0, 9, torch.int8, torch.ones(2, 3, dtype=torch.int8)), "a scale for each channel"),
        ("embedding_byte.out", (torch.ones(2, 3, dtype=torch.int8), torch.ones(2), None, -128, 127, torch.tensor([2]), torch.ones(1, 3)), "index 2 is out of range"),
        ("embedding_4bit.out", (torch.ones(2, 3, dtype=torch.uint8), torch.ones(2, 4), None, -8, 7, torch.tensor([1]), torch.ones(1, 6)), "number of groups must divide"),
        ("choose_qparams.Tensor_out", (torch.ones(0), 0, 255, 1e-5, torch.uint8, torch.ones(1), torch.ones(1, dtype=torch.int64)), "the input is empty"),
    ],
)  # fmt: skip
def test_a_wrong_quantized_call_is_refused_in_a_sentence(
    library: Library, name: str, arguments: tuple[object, ...], sentence: str
) -> None:
    with pytest.raises(KernelError) as caught:
        library.call(f"quantized_decomposed::{name}", *arguments)
    assert sentence in caught.value.text
