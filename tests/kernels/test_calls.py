"""Properties that the runtime relies on: resizing, errors, special values, and operators without OpInfo samples."""

from __future__ import annotations

import math

import pytest
import torch
from comparisons import check_16_bits
from native import KernelError, Library, Tensor


def test_an_output_shrinks_through_the_host(library: Library) -> None:
    out = torch.empty(8, 4)
    x = torch.randn(3, 4)
    arguments = library.call("aten::relu.out", x, out)
    native: Tensor = arguments.tensors[id(out)]
    assert list(native.dl.shape[:2]) == [3, 4]
    torch.testing.assert_close(out.flatten()[:12].view(3, 4), x.relu())


@pytest.mark.parametrize(
    ("name", "args", "sentence"),
    [
        ("aten::relu.out", (torch.ones(9), torch.empty(3)), "cannot resize"),
        ("aten::relu.out", (torch.ones(3), torch.empty(3, 1)), "'out' has shape [3, 1] but the result has shape [3]"),
        ("aten::add.out", (torch.ones(3), torch.ones(4), 1, torch.empty(3)), "shapes [3] and [4] do not broadcast"),
        ("aten::add.out", (torch.ones(3), 1.0, 1, torch.empty(3)), "argument 1 must be a tensor"),
        ("aten::add.out", (torch.ones(3), torch.ones(3)), "is missing: the call has 2 arguments"),
        (
            "aten::add.out",
            (torch.ones(3), torch.ones(3), 1, torch.empty(3, dtype=torch.int32)),
            "a result of dtype float32 cannot be stored in an output of dtype int32",
        ),
        ("aten::mm.out", (torch.ones(2, 3), torch.ones(2, 3), torch.empty(2, 3)), "cannot be multiplied"),
        (
            "aten::embedding.out",
            (torch.ones(4, 2), torch.tensor([4]), -1, False, False, torch.empty(1, 2)),
            "index 4 is out of range for size 4",
        ),
        (
            "aten::floor_divide.out",
            (torch.tensor([1]), torch.tensor([0]), torch.tensor([0])),
            "integer division by zero",
        ),
        ("aten::transpose_copy.int_out", (torch.ones(2, 2), 0, 2, torch.empty(2, 2)), "dim 2 is out of range"),
        ("aten::bitwise_and.Tensor_out", (torch.ones(2), torch.ones(2), torch.empty(2)), "not defined for float32"),
    ],
)
def test_an_invalid_call_reports_an_error(library: Library, name: str, args: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(KernelError) as caught:
        library.call(name, *args)
    assert sentence in caught.value.text
    if "resize" not in sentence:
        assert caught.value.text.startswith(name + ": ")


@pytest.mark.parametrize("alpha", [-1, 0, 2])
def test_a_factor_in_a_sum_of_booleans_is_a_boolean(library: Library, alpha: int) -> None:
    a, b = torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False])
    out = torch.empty_like(a)
    library.call("aten::add.out", a, b, alpha, out)
    assert torch.equal(out, torch.add(a, b, alpha=alpha))
    library.call("aten::add.Scalar_out", a, True, alpha, out)
    assert torch.equal(out, torch.ops.aten.add.Scalar(a, True, alpha))


@pytest.mark.parametrize("k", [0, 1])
def test_the_largest_entry_of_a_tensor_without_dims_is_itself(library: Library, k: int) -> None:
    values, indices = torch.zeros(()), torch.ones((), dtype=torch.int64)
    library.call("aten::topk.values", torch.tensor(3.5), k, 0, True, True, values, indices)
    assert (values.item(), indices.item()) == (3.5, 0)
    assert torch.topk(torch.tensor(3.5), k) == (values, indices)


def test_a_fraction_fills_a_tensor_of_booleans_with_true(library: Library) -> None:
    values, mask = torch.tensor([False, False]), torch.tensor([True, False])
    out = torch.empty(2, dtype=torch.bool)
    library.call("aten::masked_fill.Scalar_out", values, mask, 0.5, out)
    assert torch.equal(out, values.masked_fill(mask, 0.5))


def test_an_empty_tensor_of_integers_can_be_divided_by_zero(library: Library) -> None:
    empty = torch.empty(2, 0, dtype=torch.int64)
    library.call("aten::floor_divide.out", empty, torch.tensor([0]), torch.empty_like(empty))
    library.call("aten::div.Scalar_mode_out", empty, 0, "trunc", torch.empty_like(empty))
    library.call("aten::remainder.Scalar_out", empty, 0, torch.empty_like(empty))


def test_empty_batches_of_integers_can_be_pooled(library: Library) -> None:
    images = torch.zeros(0, 7, 5, dtype=torch.int64)
    expected = torch.ops.aten._adaptive_avg_pool2d.default(images, [1, 1])
    library.call("aten::_adaptive_avg_pool2d.out", images, [1, 1], torch.empty_like(expected))


@pytest.mark.parametrize(
    "name", ["exp", "log", "tanh", "erf", "sigmoid", "sqrt", "rsqrt", "relu", "sign", "round", "sin"]
)
def test_special_values_equal_eager(library: Library, name: str) -> None:
    inf = math.inf
    x = torch.tensor(
        [0.0, -0.0, inf, -inf, math.nan, 1e-40, 88.8, 89.5, -87.5, -103.0, -104.5, 1e30, -1e30, 0.5, 2.5] * 3
    )
    out = torch.empty_like(x)
    library.call(f"aten::{name}.out", x, out)
    expected = getattr(torch, name)(x)
    torch.testing.assert_close(out, expected, rtol=1e-6, atol=1e-44, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_number_of_16_bits_is_converted_exactly(library: Library, dtype: torch.dtype) -> None:
    check_16_bits(library, "aten::_to_copy.out", dtype)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("channels", "out_channels", "kernel", "stride", "padding", "dilation", "groups"),
    [(8, 24, 1, 1, 0, 1, 1), (16, 16, 3, 1, 1, 1, 16), (16, 16, 3, 2, 1, 1, 16), (12, 12, 5, 2, 2, 1, 12),
     (6, 10, 3, 2, 1, 2, 2), (3, 16, 7, 2, 3, 1, 1), (4, 8, 2, 3, 0, 1, 4)],
)  # fmt: skip
def test_a_convolution_equals_eager_in_both_layouts(
    library: Library, memory_format: torch.memory_format, channels: int, out_channels: int, kernel: int, stride: int,
    padding: int, dilation: int, groups: int,
) -> None:  # fmt: skip
    torch.manual_seed(0)
    x = torch.randn(2, channels, 19, 23).contiguous(memory_format=memory_format)
    weight = torch.randn(out_channels, channels // groups, kernel, kernel)
    bias = torch.randn(out_channels)
    pairs = [stride] * 2, [padding] * 2, [dilation] * 2
    expected = torch.convolution(x.double(), weight.double(), bias.double(), *pairs, False, [0, 0], groups)
    out = torch.full(expected.shape, 7.0).contiguous(memory_format=memory_format)
    library.call("aten::convolution.out", x, weight, bias, *pairs, False, [0, 0], groups, out)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("rows", [1, 5])
def test_a_linear_layer_equals_eager(library: Library, rows: int) -> None:
    x, weight, bias = torch.randn(2, rows, 33), torch.randn(17, 33), torch.randn(17)
    out = torch.empty(2, rows, 17)
    library.call("aten::linear.out", x, weight, bias, out)
    torch.testing.assert_close(out, torch.nn.functional.linear(x, weight, bias), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (3, 4)])
def test_a_batch_norm_equals_eager(library: Library, shape: tuple[int, ...]) -> None:
    c = shape[1]
    x, weight, bias, mean, var = torch.randn(shape), torch.randn(c), torch.randn(c), torch.randn(c), torch.rand(c) + 0.1
    out, saved = torch.empty(shape), [torch.empty(0), torch.empty(0)]
    library.call("aten::_native_batch_norm_legit_no_training.out", x, weight, bias, mean, var, 0.1, 1e-5, out, *saved)
    expected = torch.nn.functional.batch_norm(x, mean, var, weight, bias, False, 0.1, 1e-5)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_group_norm_of_groups_of_one_element_is_the_bias(library: Library) -> None:
    x, weight, bias = torch.randn(2, 64, 1), torch.rand(64) + 0.5, torch.randn(64)
    out, mean, rstd = torch.empty(2, 64, 1), torch.empty(2, 64), torch.empty(2, 64)
    library.call("aten::native_group_norm.out", x, weight, bias, 2, 64, 1, 64, 1e-5, out, mean, rstd)
    assert torch.equal(out, bias.reshape(1, 64, 1).expand(2, 64, 1))


@pytest.mark.parametrize(
    ("source", "target"), [(torch.float32, torch.uint8), (torch.int64, torch.float32), (torch.bool, torch.float16)]
)
def test_dim_order_copy_converts(library: Library, source: torch.dtype, target: torch.dtype) -> None:
    x = (torch.randn(2, 3, 4, 5) * 50).abs().to(source)
    out = torch.empty(2, 3, 4, 5, dtype=target).contiguous(memory_format=torch.channels_last)
    library.call("dim_order_ops::_to_dim_order_copy.out", x, False, [0, 2, 3, 1], out)
    torch.testing.assert_close(out, x.to(target), rtol=0, atol=0)


def test_copy_in_place_broadcasts(library: Library) -> None:
    target = torch.zeros(3, 4)
    library.call("aten::copy_", target, torch.arange(4), False)
    torch.testing.assert_close(target, torch.arange(4.0).expand(3, 4))


def test_the_view_operator_shares_memory_with_its_input(library: Library) -> None:
    x, out = torch.randn(2, 6), torch.empty(3, 4)
    arguments = library.call("executorch_prim::et_view.default", x, [3, -1], out)
    assert arguments.tensors[id(out)].dl.data == x.data_ptr()
