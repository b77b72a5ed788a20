"""Operators that PyTorch's operator database does not call: scalar arithmetic, creation, layouts, statistics."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from native import Library


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("executorch_prim::ceil.Scalar", (1.25,), 2),
        ("executorch_prim::round.Scalar", (2.5,), 2),
        ("executorch_prim::trunc.Scalar", (-1.75,), -1),
        ("executorch_prim::sym_int.Scalar", (-1.75,), -1),
        ("executorch_prim::sym_float.Scalar", (3,), 3.0),
        ("executorch_prim::neg.Scalar", (3,), -3),
        ("executorch_prim::sub.Scalar", (2, 5), -3),
        ("executorch_prim::sym_max.Scalar", (2, 5), 5),
        ("executorch_prim::sym_min.Scalar", (2, 5), 2),
        ("executorch_prim::floordiv.int", (-7, 2), -4),
        ("executorch_prim::mod.int", (-7, 2), 1),
        ("executorch_prim::eq.Scalar", (3, 3), True),
        ("executorch_prim::ge.Scalar", (2, 3), False),
        ("executorch_prim::gt.Scalar", (4, 3), True),
        ("executorch_prim::le.Scalar", (3, 3), True),
        ("executorch_prim::sym_not.Scalar", (True,), False),
        ("aten::sym_size.int", (torch.ones(2, 5), -1), 5),
        ("aten::sym_numel", (torch.ones(2, 5),), 10),
        ("executorch_prim::add.Scalar", (2, 3), 5),
        ("executorch_prim::mod.Scalar", (-7, 3), 2),
        ("executorch_prim::floordiv.Scalar", (-7, 3), -3),
        ("executorch_prim::truediv.Scalar", (1, 4), 0.25),
        ("executorch_prim::mul.Scalar", (1.5, 4), 6.0),
        ("executorch_prim::lt.Scalar", (2, 3), True),
        ("executorch_prim::sym_ite.Scalar", (False, 3, 4.5), 4.5),
        ("aten::_local_scalar_dense", (torch.tensor(3.5),), 3.5),
    ],
)
def test_operators_on_numbers_of_a_program_equal_python(
    library: Library, name: str, args: tuple[Any, ...], expected: Any
) -> None:
    value = library.call(name, *args, None).values[len(args)]
    result = value.value.d if value.tag == 2 else bool(value.value.i) if value.tag == 3 else value.value.i
    assert result == expected and type(result) is type(expected)


def test_empty_gives_a_tensor_of_the_shape(library: Library) -> None:
    for name, format_or_order in (("aten::empty.out", None), ("dim_order_ops::_empty_dim_order.out", [0, 1])):
        out = torch.empty(4, 3)
        native = library.call(name, [2, 3], format_or_order, out).tensors[id(out)]
        assert list(native.dl.shape[:2]) == [2, 3]


def test_a_clone_into_another_layout_keeps_the_values(library: Library) -> None:
    x = torch.randn(2, 3, 4, 5)
    out = torch.empty(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    library.call("dim_order_ops::_clone_dim_order.out", x, False, [0, 2, 3, 1], out)
    assert torch.equal(out, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.int64, torch.bool])
def test_copies_and_fills_equal_eager(library: Library, dtype: torch.dtype) -> None:
    target, source = torch.zeros(3, 4, dtype=dtype), torch.tensor([1, 0, 1, 1]).to(dtype)
    out = torch.empty(3, 4, dtype=dtype)
    library.call("aten::copy.out", target, source, False, out)
    assert torch.equal(out, source.expand(3, 4))
    library.call("aten::fill.Tensor_out", target, torch.tensor(1, dtype=dtype), out)
    assert torch.equal(out, torch.ones(3, 4, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8])
def test_bit_operations_with_a_number_equal_eager(library: Library, dtype: torch.dtype) -> None:
    x = torch.tensor([[0, 1, 5], [100, 64, 77]]).to(dtype)
    out = torch.empty_like(x)
    calls = {
        "aten::bitwise_and.Scalar_out": x & 6,
        "aten::bitwise_or.Scalar_out": x | 6,
        "aten::bitwise_xor.Scalar_out": x ^ 6,
        "aten::bitwise_left_shift.Tensor_Scalar_out": x << 2,
        "aten::bitwise_right_shift.Tensor_Scalar_out": x >> 2,
    }
    for name, expected in calls.items():
        library.call(name, x, 6 if "shift" not in name else 2, out)
        assert torch.equal(out, expected), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.uint8])
def test_divisions_by_a_number_equal_eager(library: Library, dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 5, 100, 77]).to(dtype)
    out = torch.empty_like(x)
    library.call("aten::fmod.Scalar_out", x, 3, out)
    assert torch.equal(out, torch.fmod(x, 3))
    for mode in ("floor", "trunc"):
        library.call("aten::div.Scalar_mode_out", x, 3, mode, out)
        assert torch.equal(out, torch.div(x, 3, rounding_mode=mode))


def test_a_number_wraps_to_the_dtype_of_the_tensor(library: Library) -> None:
    """ATen converts the operands to the common dtype before it compares them: -1 is 255 in uint8."""
    x, out = torch.tensor([255, 1], dtype=torch.uint8), torch.empty(2, dtype=torch.bool)
    library.call("aten::eq.Scalar_out", x, -1, out)
    assert torch.equal(out, x == -1) and out.tolist() == [True, False]


@pytest.mark.parametrize("limits", [(-1, 1), (None, -2), (-3, None), (1, 5)])
def test_limits_of_clamp_wrap_to_the_dtype_of_the_tensor(library: Library, limits: tuple[Any, Any]) -> None:
    x, out = torch.tensor([0, 1, 7, 254, 255], dtype=torch.uint8), torch.empty(5, dtype=torch.uint8)
    library.call("aten::clamp.out", x, *limits, out)
    assert torch.equal(out, x.clamp(*limits))


@pytest.mark.parametrize("limits", [(math.nan, 1.0), (None, math.nan), (math.nan, None), (-1, math.nan)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_a_limit_of_clamp_that_is_nan_gives_nan(library: Library, limits: tuple[Any, Any], dtype: torch.dtype) -> None:
    x = torch.tensor([0.5, -2.0, 3.0], dtype=dtype)
    out = torch.empty_like(x)
    library.call("aten::clamp.out", x, *limits, out)
    torch.testing.assert_close(out, x.clamp(*limits), equal_nan=True)
    assert out.isnan().all()


def test_full_converts_its_number(library: Library) -> None:
    out = torch.empty(3, dtype=torch.int64)
    library.call("aten::full.out", [3], -2.75, out)
    assert torch.equal(out, torch.full((3,), -2.75, dtype=torch.int64))


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(3, 3), (9, 5), (4, 11)])
def test_bilinear_resizing_of_bytes_equals_eager(library: Library, size: tuple[int, int], align_corners: bool) -> None:
    x = torch.randint(0, 256, (2, 3, 4, 6), dtype=torch.uint8)
    out = torch.empty(2, 3, *size, dtype=torch.uint8)
    library.call("aten::upsample_bilinear2d.vec_out", x, list(size), align_corners, None, out)
    expected = torch.nn.functional.interpolate(x, size=size, mode="bilinear", align_corners=align_corners)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("channels_last", [False, True])
def test_nearest_resizing_equals_eager(library: Library, channels_last: bool) -> None:
    x, out = torch.randn(2, 3, 4, 5), torch.empty(2, 3, 8, 15)
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    library.call("aten::upsample_nearest2d.vec_out", x, [8, 15], None, out)
    assert torch.equal(out, torch.nn.functional.interpolate(x, size=(8, 15)))


@pytest.mark.parametrize("with_stats", [False, True])
def test_a_batch_norm_in_training_equals_eager(library: Library, with_stats: bool) -> None:
    x, weight, bias = torch.randn(4, 3, 5, 5), torch.rand(3) + 0.5, torch.randn(3)
    outs = [torch.empty_like(x), torch.empty(3), torch.empty(3)]
    if with_stats:
        mean, var = torch.zeros(3), torch.ones(3)
        their_mean, their_var = mean.clone(), var.clone()
        library.call("aten::_native_batch_norm_legit.out", x, weight, bias, mean, var, True, 0.1, 1e-5, *outs)
        expected = torch.ops.aten._native_batch_norm_legit(x, weight, bias, their_mean, their_var, True, 0.1, 1e-5)
        torch.testing.assert_close((mean, var), (their_mean, their_var))
    else:
        library.call("aten::_native_batch_norm_legit.no_stats_out", x, weight, bias, True, 0.1, 1e-5, *outs)
        expected = torch.ops.aten._native_batch_norm_legit.no_stats(x, weight, bias, True, 0.1, 1e-5)
    torch.testing.assert_close(tuple(outs), expected)


@pytest.mark.parametrize("dims", [2, 3])
def test_reflection_padding_of_images_and_volumes_equals_eager(library: Library, dims: int) -> None:
    x, padding = torch.randn(2, 3, *(4, 5, 6)[:dims]), [1, 2, 2, 1, 0, 3][: 2 * dims]
    expected = torch.nn.functional.pad(x, padding, mode="reflect")
    name = {2: "aten::reflection_pad2d.out", 3: "aten::reflection_pad3d.out"}[dims]
    out = torch.empty_like(expected)
    library.call(name, x, padding, out)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("dim", [0, 1])
def test_sums_and_products_of_truth_values_equal_eager(library: Library, dtype: torch.dtype, dim: int) -> None:
    x = torch.tensor([[0.5, -0.25, 0.75], [1, -1, 0], [0, 0, 0], [2, 3, 4]]).to(dtype)
    total, product = torch.empty(x.shape[1 - dim], dtype=torch.bool), torch.empty(x.shape[1 - dim], dtype=torch.bool)
    library.call("aten::sum.IntList_out", x, [dim], False, torch.bool, total)
    assert torch.equal(total, x.sum(dim, dtype=torch.bool))
    library.call("aten::prod.int_out", x, dim, False, torch.bool, product)
    assert torch.equal(product, x.prod(dim, dtype=torch.bool))


@pytest.mark.parametrize("correction", [-1, 0, 1])
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_variance_of_few_or_no_elements_equals_eager(library: Library, rows: int, correction: int) -> None:
    x, result = torch.rand(rows, 3), torch.empty(3)
    library.call("aten::var.correction_out", x, [0], correction, False, result)
    torch.testing.assert_close(result, torch.var(x, 0, correction=correction), equal_nan=True)
