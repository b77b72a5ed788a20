"""Operators that scatter, select by value, pad, sort or sample, in every dtype and layout."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from native import KernelError, Library

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, *FLOATS]


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = math.prod(shape)
    return ((torch.arange(count) * 37 % 101 - (0 if dtype == torch.uint8 else 50)) % 128).to(dtype).reshape(shape)


def swapped(t: torch.Tensor) -> torch.Tensor:
    """Return the same values with the first dim innermost in memory; channels last for four dims."""
    if t.dim() == 4:
        return t.contiguous(memory_format=torch.channels_last)
    return t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() > 1 else t


def run(
    library: Library, name: str, *args: Any, expected: Any, swap: bool = False, rtol: float = 0, atol: float = 0
) -> None:
    """Call the kernel with outputs like `expected`, filled with ones, and compare the results with `expected`."""
    results = expected if isinstance(expected, (tuple, list)) else [expected]
    outs = [torch.full_like(r, 1).contiguous() for r in results]
    if swap:
        outs = [swapped(out) for out in outs]
    library.call(name, *args, *outs)
    for out, result in zip(outs, results, strict=True):
        torch.testing.assert_close(out, result, equal_nan=True, check_stride=False, rtol=rtol, atol=atol)


def dynamic_result(library: Library, name: str, *args: Any, out: torch.Tensor) -> torch.Tensor:
    """Return the result of a kernel whose output size depends on the data. `out` has enough memory for it."""
    native = library.call(name, *args, out).tensors[id(out)].dl
    shape = [native.shape[d] for d in range(native.ndim)]
    return out.flatten()[: math.prod(shape)].reshape(shape).clone()


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_equals_eager(library: Library, dtype: torch.dtype, swap: bool) -> None:
    x, source = numbers(4, 5, 3, dtype=dtype), torch.ones(4, 2, 3, dtype=dtype)
    index = numbers(3, 2, 3, dtype=torch.int64) % 5
    layout = swapped if swap else torch.Tensor.contiguous
    args = layout(x), 1, layout(index), layout(source)
    scattered = torch.ops.aten.scatter.src(x, 1, index, source)  # all sources are 1: the order does not matter
    run(library, "aten::scatter.src_out", *args, expected=scattered, swap=swap)
    run(library, "aten::scatter_add.out", *args, expected=x.scatter_add(1, index, source), swap=swap)
    run(library, "aten::scatter.value_out", *args[:3], 1, expected=x.scatter(1, index, 1), swap=swap)


@pytest.mark.parametrize("included", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool])
def test_scatter_with_a_reduction_equals_eager(
    library: Library, dtype: torch.dtype, reduce: str, included: bool
) -> None:
    if dtype == torch.bool and reduce == "mean":
        return  # eager has none
    x, source = numbers(4, 5, 3, dtype=dtype), numbers(4, 6, 3, dtype=dtype)
    index = torch.randint(0, 5, (3, 6, 2), generator=torch.Generator().manual_seed(0))
    expected = x.scatter_reduce(1, index, source, reduce, include_self=included)
    for swap, layout in ((False, torch.Tensor.contiguous), (True, swapped)):
        args = layout(x), -2, layout(index), layout(source), reduce, included
        run(library, "aten::scatter_reduce.two_out", *args, expected=expected, swap=swap)


def test_scatter_with_a_reduction_keeps_nan_and_rounds_integers_down(library: Library) -> None:
    x, source = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([math.nan, 5.0, 7.0, 1.0])
    index = torch.tensor([0, 1, 1, 1])
    for reduce in ("amax", "amin"):
        expected = x.scatter_reduce(0, index, source, reduce)
        run(library, "aten::scatter_reduce.two_out", x, 0, index, source, reduce, True, expected=expected)
    x, source = torch.tensor([-8, 2, 3]), torch.tensor([1, -5, -7, -1])
    expected = x.scatter_reduce(0, index, source, "mean")
    run(library, "aten::scatter_reduce.two_out", x, 0, index, source, "mean", True, expected=expected)
    number = torch.tensor(3.0)
    args = number, 0, torch.tensor(0), torch.tensor(2.0), "prod", True
    run(library, "aten::scatter_reduce.two_out", *args, expected=torch.tensor(6.0))


def test_scatter_of_tensors_without_dims_equals_eager(library: Library) -> None:
    x, source, index = torch.tensor(3.0), torch.tensor(1.5), torch.tensor(0)
    run(library, "aten::scatter_add.out", x, -1, index, source, expected=x + source)
    run(library, "aten::scatter.src_out", numbers(3), 0, index, source, expected=numbers(3).scatter(0, index, source))
    run(library, "aten::scatter.value_out", numbers(3), 0, index[None][:0], 1.5, expected=numbers(3))


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.bool, torch.float16])
def test_index_put_equals_eager(library: Library, dtype: torch.dtype, accumulate: bool, swap: bool) -> None:
    x = numbers(4, 5, 3, 2, dtype=dtype)
    a, b = torch.tensor([[0, -1], [2, 1]]), torch.tensor([1, 0])
    mask = numbers(5, 3, dtype=torch.int64) % 3 == 0
    for indices in ([a], [None, a, b], [a, None, b], [None, mask], [b, mask.any(1).nonzero()[:2, 0]], [a, b, b, b]):
        values = numbers(*x[tuple(slice(None) if i is None else i for i in indices)].shape, dtype=dtype)
        if accumulate and dtype.is_floating_point:
            values = values / 64
        for source in (values, values[..., :1]):
            expected = torch.ops.aten.index_put(x, indices, source, accumulate)
            self = swapped(x) if swap else x.clone()
            run(library, "aten::index_put.out", self, indices, source, accumulate, expected=expected, swap=swap)
            library.call("aten::index_put_", self, indices, source, accumulate)
            assert torch.equal(self, expected)


def test_index_put_of_one_value_of_higher_rank_at_a_mask_equals_eager(library: Library) -> None:
    x, value = numbers(3, 1, 2), torch.full((1, 1), 7.0)
    mask = x > 0
    expected = torch.ops.aten.index_put(x, [mask], value)
    run(library, "aten::index_put.out", x, [mask], value, False, expected=expected)


def test_index_put_at_repeated_positions_keeps_the_last_or_adds_all(library: Library) -> None:
    """Repeated indices: without accumulation the last value stays, with accumulation all values are added."""
    x, index, values = torch.zeros(3, 2), torch.tensor([1, 1, -2]), torch.tensor([[1.0], [2.0], [4.0]])
    run(
        library,
        "aten::index_put.out",
        x,
        [index],
        values,
        False,
        expected=torch.tensor([[0.0] * 2, [4.0] * 2, [0.0] * 2]),
    )
    run(
        library,
        "aten::index_put.out",
        x,
        [index],
        values,
        True,
        expected=torch.tensor([[0.0] * 2, [7.0] * 2, [0.0] * 2]),
    )


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_into_slices_equals_eager(library: Library, dtype: torch.dtype, swap: bool) -> None:
    x = numbers(3, 6, 4, dtype=dtype)
    self = swapped(x) if swap else x
    for dim, index in ((0, 2), (1, -6), (-1, 3)):
        source = x.select(dim, 1).clone()
        expected = torch.select_scatter(x, source, dim, index)
        run(library, "aten::select_scatter.out", self, source, dim, index, expected=expected, swap=swap)
    for start, end, step in ((None, None, 1), (1, 5, 2), (-4, 100, 3), (4, 2, 1), (-100, -1, 1)):
        source = numbers(*x[:, slice(start, end, step)].shape, dtype=dtype)
        expected = torch.slice_scatter(x, source, 1, start, end, step)
        run(library, "aten::slice_scatter.out", self, source, 1, start, end, step, expected=expected, swap=swap)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonzero_and_masked_select_give_as_many_results_as_they_find(library: Library, dtype: torch.dtype) -> None:
    x = numbers(4, 6, dtype=dtype) * (numbers(4, 6, dtype=torch.int64) % 2).to(dtype)
    for self in (x, swapped(x), x.flatten(), x[:0], torch.zeros_like(x), x[1, 1]):
        out = torch.full((self.numel(), self.dim()), 7)
        assert torch.equal(dynamic_result(library, "aten::nonzero.out", self, out=out), self.nonzero())
    for mask in (x != 0, swapped(x != 0), (x != 0)[:1], (x != 0)[:, :1], torch.tensor(True), torch.tensor(False)):
        out = torch.ones(x.numel(), dtype=dtype)
        selected = dynamic_result(library, "aten::masked_select.out", swapped(x), mask, out=out)
        assert torch.equal(selected, x.masked_select(mask))
        source = numbers(5, 5, dtype=dtype)
        expected = x.masked_scatter(mask, source)
        run(library, "aten::masked_scatter.out", swapped(x), mask, swapped(source), expected=expected, swap=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonzero_static_gives_the_wanted_number_of_rows(library: Library, dtype: torch.dtype) -> None:
    x = numbers(4, 6, dtype=dtype) * (numbers(4, 6, dtype=torch.int64) % 2).to(dtype)
    for self in (x, swapped(x), x.flatten(), x[:0], torch.zeros_like(x), x[1, 1]):
        for size in (0, 3, 30):
            for fill in (-1, 2**40):
                expected = torch.nonzero_static(self, size=size, fill_value=fill)
                run(library, "aten::nonzero_static.out", self, size, fill, expected=expected)


def unique_runs(
    library: Library, self: torch.Tensor, inverse: bool, counts: bool, dim: int | None
) -> list[torch.Tensor]:
    """Return the results of unique_consecutive, whose outputs have memory for slices that all differ."""
    size = self.numel() if dim is None else self.shape[dim]
    values = self.flatten().clone() if dim is None else self.clone(memory_format=torch.contiguous_format)
    outs = [values, torch.full(self.shape if inverse and dim is None else (size,), 7), torch.full((size,), 7)]
    native = library.call("aten::unique_consecutive.out", self, inverse, counts, dim, *outs)
    results = []
    for out in outs:
        described = native.tensors[id(out)].dl
        shape = [described.shape[d] for d in range(described.ndim)]
        results.append(out.flatten()[: math.prod(shape)].reshape(shape).clone())
    return results


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique_consecutive_equals_eager(library: Library, dtype: torch.dtype) -> None:
    x = (numbers(6, 4, 2, dtype=torch.int64) % 2).to(dtype)
    x[2:4], x[:, 3] = x[1], x[:, 2]
    equal = torch.ones(3, dtype=dtype)
    for self in (x, swapped(x), x.flatten(), x[:, 0, 0], x[0, 0, 0], x[:0], equal, numbers(50, dtype=dtype)):
        for dim in (None, *(d for d in range(-1, self.dim()) if self.dim() and self.numel())):
            for inverse, counts in ((False, False), (True, False), (False, True), (True, True)):
                expected = torch.ops.aten.unique_consecutive(self, True, True, dim)
                results = unique_runs(library, self, inverse, counts, dim)
                torch.testing.assert_close(results[0], expected[0], rtol=0, atol=0)
                wanted = (inverse or dim is not None, counts or dim is not None)
                for result, value, is_wanted in zip(results[1:], expected[1:], wanted, strict=True):
                    torch.testing.assert_close(result, value if is_wanted else torch.empty(0, dtype=torch.int64))


def test_nan_equals_no_number_in_unique_consecutive(library: Library) -> None:
    x = torch.tensor([1.0, math.nan, math.nan, -0.0, 0.0, math.inf, math.inf])
    for dim in (None, 0):
        values, inverse, counts = unique_runs(library, x, True, True, dim)
        torch.testing.assert_close(values, torch.tensor([1, math.nan, math.nan, -0.0, math.inf]), equal_nan=True)
        assert (
            torch.signbit(values[3])
            and inverse.tolist() == [0, 1, 2, 3, 3, 4, 4]
            and counts.tolist() == [1, 1, 1, 2, 2]
        )


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_repeat_interleave_equals_eager(library: Library, dtype: torch.dtype) -> None:
    for repeats in ([2, 0, 3], [], [0, 0]):
        counts, out = torch.tensor(repeats, dtype=dtype), torch.empty(9, dtype=dtype)
        result = dynamic_result(library, "aten::repeat_interleave.Tensor_out", counts, None, out=out)
        assert torch.equal(result, torch.repeat_interleave(counts).to(dtype))


def test_a_loop_collects_its_results(library: Library) -> None:
    """The output of `map` is planned for its max shape. The first result fixes the other dims of its actual shape."""
    target = torch.zeros(4, 3, 8)
    rows = numbers(4, 3, 5)
    flat = target.flatten()
    for i in range(4):
        native = library.call("executorch_prim::et_copy_index.tensor", target, rows[i], i).tensors[id(target)].dl
        assert list(native.shape[:3]) == [i + 1, 3, 5]
        target = flat[:60].view(4, 3, 5) if i == 0 else target
    assert torch.equal(flat[:60].view(4, 3, 5), rows)


@pytest.mark.parametrize("name", ["et_copy::_h2d_copy.out", "et_copy::_d2h_copy.out"])
def test_copies_between_devices_copy_the_tensor(library: Library, name: str) -> None:
    for dtype in DTYPES:
        x = numbers(2, 3, 4, 5, dtype=dtype)
        run(library, name, x, expected=x, swap=True)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_parts_and_conjugates_of_complex_numbers_equal_eager(library: Library, dtype: torch.dtype) -> None:
    x = torch.complex(numbers(3, 4, 2), numbers(3, 4, 2) + 0.5).to(dtype)
    for self in (x, swapped(x), x[0, 0, 0], x[:, :0]):
        run(library, "aten::view_as_real_copy.out", self, expected=torch.view_as_real(self).clone(), swap=True)
        run(library, "aten::_conj_physical.out", self, expected=self.conj().resolve_conj().contiguous())


def test_as_strided_copy_equals_eager(library: Library) -> None:
    x = numbers(4, 6)
    for size, stride, offset in (([3, 5], [1, 2], 3), ([], [], 23), ([2, 3], [0, 0], None), ([0, 9], [99, 99], 99)):
        expected = x.as_strided(size, stride, offset or 0) if 0 not in size else torch.empty(size)
        run(library, "aten::as_strided_copy.out", x, size, stride, offset, expected=expected.clone())


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reflection_and_replication_padding_equal_eager(library: Library, dtype: torch.dtype, swap: bool) -> None:
    # Eager PyTorch pads only some dtypes, so the reference is padded as float64.
    for dims, padding in ((1, [2, 1]), (1, [-1, 2]), (2, [3, 2, 1, 0]), (3, [1, 1, 2, 0, 0, 1])):
        for shape in ([2, 3, 3, 4, 5][-dims - 2 :], [3, 3, 4, 5][-dims - 1 :]):
            x = numbers(*shape, dtype=dtype)
            self = swapped(x) if swap else x
            for kind, mode in (("reflection", "reflect"), ("replication", "replicate")):
                expected = torch.nn.functional.pad(x.double(), padding, mode=mode).to(dtype)
                run(library, f"aten::{kind}_pad{dims}d.out", self, padding, expected=expected, swap=swap)


@pytest.mark.parametrize("kind", ["reflection", "replication"])
def test_padding_that_crops_all_rows_gives_no_elements(library: Library, kind: str) -> None:
    x, padding = numbers(1, 1, 2, 3), [0, 1, -2, 0]
    expected = torch.empty(1, 1, 0, 4)  # as PyTorch 2.13 gives; 2.14 refuses such a replication
    run(library, f"aten::{kind}_pad2d.out", x, padding, expected=expected)


@pytest.mark.parametrize("dim", [-2, 0, 1])
def test_tensors_without_elements_alone_concatenate_in_any_dim(library: Library, dim: int) -> None:
    empty = numbers(0)
    run(library, "aten::cat.out", [empty, empty], dim, expected=torch.cat([empty, empty], dim))


@pytest.mark.parametrize("dtype", DTYPES)
def test_cumulative_sums_and_triangles_equal_eager(library: Library, dtype: torch.dtype) -> None:
    x = swapped(numbers(3, 5, 2, dtype=dtype) % 7 if dtype != torch.bool else numbers(3, 5, 2, dtype=dtype))
    for dim in (0, 1, -1):
        expected = x.cumsum(dim)
        run(library, "aten::cumsum.out", x, dim, None, expected=expected, swap=True, rtol=1e-2, atol=0)
        wide = x.cumsum(dim, dtype=torch.float32)
        run(library, "aten::cumsum.out", x, dim, torch.float32, expected=wide, rtol=1e-6, atol=1e-6)
    for diagonal in (0, 1, -2, 100, -100, 2**63 - 1):
        expected = x.tril(min(diagonal, 1000))
        run(library, "aten::tril.out", x, diagonal, expected=expected, swap=True)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != torch.bool])
def test_topk_of_distinct_numbers_equals_eager(library: Library, dtype: torch.dtype) -> None:
    """All entries are distinct, so that there is one right order."""
    x = ((torch.arange(60) * 17) % 61).to(dtype).reshape(3, 5, 4)
    for dim, k, largest in ((0, 2, True), (1, 5, False), (-1, 1, True), (1, 0, True)):
        values, indices = x.topk(k, dim, largest)
        run(library, "aten::topk.values", swapped(x), k, dim, largest, True, expected=[values, indices], swap=True)


def test_topk_counts_nan_as_the_max(library: Library) -> None:
    x = torch.tensor([1.0, math.nan, math.inf, -math.inf])
    for largest in (True, False):
        run(library, "aten::topk.values", x, 4, 0, largest, True, expected=x.topk(4, 0, largest))


@pytest.mark.parametrize("dtype", FLOATS)
def test_gated_units_and_variances_equal_eager(library: Library, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = swapped(torch.randn(4, 6, 2).to(dtype))
    unit = torch.finfo(dtype).eps
    for dim in (0, 1, -1):
        expected = torch.nn.functional.glu(x.double(), dim).to(dtype)
        run(library, "aten::glu.out", x, dim, expected=expected, swap=True, rtol=2 * unit, atol=4 * unit)
    for dims, correction, keep in (([1], None, False), ([0, -1], 0, True), (None, 2, False), ([], 1.5, True)):
        both = [t.to(dtype) for t in torch.var_mean(x.double(), dims, correction=correction, keepdim=keep)]
        run(
            library,
            "aten::var_mean.correction_out",
            x,
            dims,
            correction,
            keep,
            expected=both,
            rtol=2 * unit,
            atol=4 * unit,
        )


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_grid_sampling_equals_eager(library: Library, mode: int, padding: int, align_corners: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 7, dtype=torch.float64)
    grid = torch.randn(2, 4, 6, 2, dtype=torch.float64) * 1.5
    grid[0, 0] = torch.tensor([[-1, -1], [1, 1], [0, 0], [9.7, -30.2], [1e4, 2], [1, -1]])
    expected = torch.grid_sampler_2d(x, grid, mode, padding, align_corners)
    name = "aten::grid_sampler_2d.out"
    run(
        library,
        name,
        swapped(x),
        grid,
        mode,
        padding,
        align_corners,
        expected=expected,
        swap=True,
        rtol=1e-9,
        atol=1e-9,
    )
    grid[0, 0] = 0.3  # float32 cannot represent where the far points above are reflected to
    exact = torch.grid_sampler_2d(x.float().double(), grid.float().double(), mode, padding, align_corners)
    run(
        library,
        name,
        x.float(),
        grid.float(),
        mode,
        padding,
        align_corners,
        expected=exact.float(),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, 1])
def test_sampling_of_volumes_equals_eager(
    library: Library, mode: int, padding: int, align_corners: bool, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    x, grid = torch.randn(2, 3, 4, 5, 7).to(dtype), (torch.randn(2, 3, 4, 6, 3) * 1.5).to(dtype)
    grid[0, 0, 0] = torch.tensor([[-1, -1, 1], [1, 1, 1], [0, 0, 0], [4, -3, 2], [1, -1, -1], [0, 1, -1]])
    expected = torch.grid_sampler_3d(x.double(), grid.double(), mode, padding, align_corners).to(dtype)
    if dtype == torch.float64:
        grid[1, 0, 0, 0] = torch.tensor([0 if padding == 2 else math.inf, 0, 0])  # infinity has no reflection
        grid[1, 0, 0, 1] = torch.tensor([9.7, 0, 1e4])
        expected = torch.grid_sampler_3d(x, grid, mode, padding, align_corners)
    limit = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    args = swapped(x), swapped(grid), mode, padding, align_corners
    run(library, "aten::grid_sampler_3d.out", *args, expected=expected, swap=True, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_numbers_stay_below_one(library: Library, dtype: torch.dtype) -> None:
    out = torch.empty(100_000, dtype=dtype)
    library.call("aten::rand.out", [100_000], out)
    assert out.min() >= 0 and out.max() < 1


def floats(*shape: int) -> torch.Tensor:
    return torch.ones(shape)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
HOSTILE: list[tuple[str, tuple[Any, ...], str]] = [
    ("aten::scatter.src_out", (floats(4), 0, ints(4), floats(1), floats(4)), "index 4 is out of range for size 4"),
    ("aten::scatter.src_out", (floats(4), 0, ints(-1), floats(1), floats(4)), "index -1 is out of range"),
    ("aten::scatter.src_out", (floats(4), 0, ints(0, 0), floats(1), floats(4)), "does not fit"),
    ("aten::scatter.src_out", (floats(4), 1, ints(0), floats(1), floats(4)), "dim 1 is out of range"),
    ("aten::scatter.value_out", (floats(4), 0, floats(1), 1.0, floats(4)), "an index must be int32 or int64"),
    ("aten::scatter_add.out", (floats(2, 2), 0, ints(0), floats(2, 2), floats(2, 2)), "does not fit"),
    ("aten::scatter_add.out", (floats(2), 0, ints(0), ints(1), floats(2)), "the source must have the input's dtype"),
    ("aten::scatter_reduce.two_out", (floats(4), 0, ints(4), floats(1), "sum", True, floats(4)), "index 4 is out of range"),
    ("aten::scatter_reduce.two_out", (floats(4), 0, ints(0), floats(1), "max", True, floats(4)), "'reduce' must be 'sum'"),
    ("aten::scatter_reduce.two_out", (floats(4), 0, ints(0), ints(1), "sum", True, floats(4)), "the source must have"),
    ("aten::scatter_reduce.two_out", (floats(4), 0, ints(0, 1), floats(1), "sum", True, floats(4)), "does not fit"),
    ("aten::index_put.out", (floats(4), [ints(INT64_MAX)], floats(1), False, floats(4)), "is out of range for size 4"),
    ("aten::index_put.out", (floats(4), [ints(0), ints(0)], floats(1), False, floats(4)), "more indices than dims"),
    ("aten::index_put.out", (floats(4, 4), [ints(0, 1), ints(0, 1, 2)], floats(1), False, floats(4, 4)), "not broadcast"),
    ("aten::index_put.out", (floats(4), [ints(0)], floats(3), False, floats(4)), "does not broadcast"),
    ("aten::index_put.out", (floats(4), [torch.ones(5, dtype=torch.bool)], floats(1), False, floats(4)), "a mask must have"),
    ("aten::index_put_", (floats(4), [ints(INT64_MIN)], floats(1), False), "is out of range for size 4"),
    ("aten::select_scatter.out", (floats(3, 2), floats(2), 0, INT64_MIN, floats(3, 2)), "is out of range for size 3"),
    ("aten::select_scatter.out", (floats(3, 2), floats(3), 0, 0, floats(3, 2)), "the source has shape [3]"),
    ("aten::slice_scatter.out", (floats(3), floats(3), 0, 0, 3, 0, floats(3)), "step must be positive"),
    ("aten::slice_scatter.out", (floats(3), floats(3), 0, 1, INT64_MAX, INT64_MAX, floats(3)), "the source has shape [3]"),
    ("aten::masked_scatter.out", (floats(3), floats(3) > 0, floats(2), floats(3)), "more true elements than the source's 2"),
    ("aten::masked_select.out", (floats(3), floats(3), floats(3)), "the mask must be a bool tensor"),
    ("aten::masked_select.out", (floats(3), floats(3) > 0, floats(2)), "cannot resize"),
    ("aten::nonzero.out", (floats(3), ints(0, 0, 0)), "the result has shape [3, 1]"),
    ("aten::nonzero_static.out", (floats(3), -1, 0, ints(0)), "size must not be negative"),
    ("aten::nonzero_static.out", (floats(3), 2, 0, floats(2, 1)), "out must be int64"),
    ("aten::nonzero_static.out", (floats(3), INT64_MAX, 0, torch.ones(2, 1, dtype=torch.int64)), "cannot resize"),
    ("aten::unique_consecutive.out", (floats(2), True, True, 1, floats(2), ints(0, 0), ints(0, 0)), "dim 1 is out of range"),
    ("aten::unique_consecutive.out", (floats(2), True, True, None, floats(2), floats(2), ints(0, 0)), "must be int64"),
    ("aten::unique_consecutive.out", (floats(2), True, True, None, ints(0), ints(0, 0), ints(0, 0)), "must have the input's"),
    ("aten::unique_consecutive.out", (numbers(2), True, True, None, floats(1), ints(0, 0), ints(0, 0)), "cannot resize"),
    ("aten::unique_consecutive.out", (floats(0, 2), True, True, 1, floats(0, 2), ints(0, 0), ints(0, 0)), "is empty"),
    ("aten::unique_consecutive.out", (torch.tensor(1.0), True, True, 0, floats(1), ints(0), ints(0)), "the input has no dims"),
    ("aten::repeat_interleave.Tensor_out", (ints(-1), None, ints(0)), "repeats must not be negative"),
    ("aten::repeat_interleave.Tensor_out", (ints(INT64_MAX, INT64_MAX), None, ints(0)), "repeats are too large"),
    ("aten::repeat_interleave.Tensor_out", (ints(2), 3, ints(0, 0, 0)), "output_size must be the sum of the repeats"),
    ("executorch_prim::et_copy_index.tensor", (floats(2, 3), floats(3), 2), "cannot resize"),
    ("executorch_prim::et_copy_index.tensor", (floats(2, 3), floats(3), -1), "negative"),
    ("executorch_prim::et_copy_index.tensor", (floats(2, 3), floats(2), 1), "the source has shape [2]"),
    ("executorch_prim::et_copy_index.tensor", (floats(2, 3), floats(3, 1), 0), "one more dim"),
    ("executorch_prim::et_copy_index.tensor", (swapped(floats(2, 3)), floats(3), 1), "must be the outermost in memory"),
    ("aten::view_as_real_copy.out", (floats(2), floats(2, 2)), "must be a complex tensor"),
    ("aten::as_strided_copy.out", (floats(4), [2], [4], 0, floats(2)), "reach beyond the input"),
    ("aten::as_strided_copy.out", (floats(4), [2], [-1], 3, floats(2)), "reach beyond the input"),
    ("aten::as_strided_copy.out", (floats(4), [2], [1], INT64_MIN, floats(2)), "reach beyond the input"),
    ("aten::as_strided_copy.out", (floats(4), [INT64_MAX], [INT64_MAX], 0, floats(2)), "reach beyond the input"),
    ("aten::reflection_pad1d.out", (floats(1, 3), [3, 0], floats(1, 6)), "padding 3 and 0 is out of range for a dim of size 3"),
    ("aten::replication_pad1d.out", (floats(1, 3), [INT64_MAX, INT64_MAX], floats(1, 6)), "is out of range for a dim"),
    ("aten::replication_pad2d.out", (floats(1, 3), [1, 1, 1, 1], floats(1, 6)), "must have 3 or 4 dims"),
    ("aten::replication_pad3d.out", (floats(1, 3), [1, 1], floats(1, 6)), "padding must have two entries"),
    ("aten::cumsum.out", (floats(3), 1, None, floats(3)), "dim 1 is out of range"),
    ("aten::topk.values", (floats(3), 4, 0, True, True, floats(4), ints(0, 0, 0, 0)), "k is 4 but the dim has 3 entries"),
    ("aten::topk.values", (floats(3), -1, 0, True, True, floats(1), ints(0)), "k is -1"),
    ("aten::tril.out", (floats(3), 0, floats(3)), "at least two dims"),
    ("aten::glu.out", (floats(3), 0, floats(1)), "an even size"),
    ("aten::glu.out", (torch.tensor(1.0), 0, floats(1)), "at least one dim"),
    ("aten::rand.out", ([-1], floats(1)), "a size is negative"),
    ("aten::randn.out", ([2**40, 4], floats(1, 1)), "cannot resize"),
    ("aten::native_dropout.out", (floats(2), 2.0, True, floats(2), floats(2) > 0), "p must be between 0 and 1"),
    ("aten::native_dropout.out", (floats(2), math.nan, True, floats(2), floats(2) > 0), "p must be between 0 and 1"),
    ("aten::grid_sampler_2d.out", (floats(1, 1, 2, 2), floats(1, 1, 1, 3), 0, 0, False, floats(1, 1, 1, 1)), "the grid must"),
    ("aten::grid_sampler_2d.out", (floats(1, 1, 2, 2), floats(1, 1, 1, 2), 9, 0, False, floats(1, 1, 1, 1)), "must be 0, 1 or 2"),
    ("aten::grid_sampler_3d.out", (floats(1, 1, 2, 2), floats(1, 1, 1, 2), 0, 0, False, floats(1, 1, 1, 1)), "must have 5 dims"),
    ("aten::grid_sampler_3d.out", (floats(1, 1, 2, 2, 2), floats(1, 1, 1, 1, 2), 0, 0, False, floats(1, 1, 1, 1, 1)), "[batch, depth, height, width, 3]"),
    ("aten::grid_sampler_3d.out", (floats(1, 1, 2, 0, 2), floats(1, 1, 1, 1, 3), 0, 0, False, floats(1, 1, 1, 1, 1)), "no pixels"),
    ("aten::grid_sampler_3d.out", (floats(1, 1, 2, 2, 2), floats(1, 1, 1, 1, 3), 2, 0, False, floats(1, 1, 1, 1, 1)), "no bicubic"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "sentence"), HOSTILE)
def test_a_hostile_call_is_refused(library: Library, name: str, args: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(KernelError) as caught:
        library.call(name, *args)
    assert sentence in caught.value.text


@pytest.mark.parametrize("name", ["aten::scatter.value_out", "aten::index_put.out"])
def test_an_index_that_the_output_overlaps_is_checked_after_it_is_overwritten(library: Library, name: str) -> None:
    """The index overlaps the output, so copying the input to the output changes it. The kernel must check the new index."""
    memory = torch.zeros(5, dtype=torch.int64)
    index, out, x = memory[:4], memory[1:], torch.full((4,), 2**40)
    middle: tuple[Any, ...] = ([index], ints(7), False) if "put" in name else (0, index, 7)
    with pytest.raises(KernelError, match="out of range"):
        library.call(name, x, *middle, out)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38])
def test_grid_points_of_nan_and_infinity_are_sampled_without_an_error(library: Library, value: float) -> None:
    grid = torch.full((1, 2, 2, 2), value)
    for mode in (0, 1, 2):
        for padding in (0, 1, 2):
            args = floats(1, 2, 3, 4), grid, mode, padding, False, floats(1, 2, 2, 2)
            library.call("aten::grid_sampler_2d.out", *args)


def test_bool_bytes_other_than_0_and_1_count_as_true(library: Library) -> None:
    """In the bool tensor of a file, every byte other than 0 is true."""
    mask = torch.tensor([0, 255, 2, 0, 1], dtype=torch.uint8).view(torch.bool)
    out = torch.full((5, 1), 7)
    assert dynamic_result(library, "aten::nonzero.out", mask, out=out).flatten().tolist() == [1, 2, 4]
    selected = dynamic_result(library, "aten::masked_select.out", numbers(5), mask, out=torch.empty(5))
    assert torch.equal(selected, numbers(5)[[1, 2, 4]])
