"""Arguments that only a damaged or hostile file has: kernels report an error, and never crash or access other memory."""

from __future__ import annotations

import pytest
import torch
from mutate_calls import run
from native import Arguments, KernelError, Library

INT64_MIN = -(2**63)


def floats(*shape: int) -> torch.Tensor:
    return torch.ones(shape)


@pytest.mark.parametrize(
    ("name", "args", "sentence"),
    [
        ("aten::flip.out", (floats(4), [0, 0], floats(4)), "a dim appears twice"),
        ("aten::repeat.out", (floats(8), [2**61 + 1], floats(8)), "a repeat is out of range"),
        ("aten::pixel_shuffle.out", (floats(4, 1, 1), 2**32, floats(4, 1, 1)), "the factor is out of range"),
        ("aten::arange.start_out", (0, INT64_MIN, -1, torch.empty(1, dtype=torch.int64)), "would have too many elements"),
        (
            "aten::native_group_norm.out",
            (floats(2, 2), None, None, 2, 2, 2**62 + 1, 1, 1e-5, floats(2, 2), floats(2, 1), floats(2, 1)),
            "do not match the input",
        ),
        (
            "aten::avg_pool2d.out",
            (torch.ones(1, 0, 4, dtype=torch.int64), [2, 2], [2, 2], [1, 1], False, False, None,
             torch.ones(1, 1, 3, dtype=torch.int64)),
            "the spatial dims must not be empty",
        ),
        ("aten::scatter.value_out", (floats(3), 0, torch.tensor([3]), 1.0, floats(3)), "index 3 is out of range"),
        ("aten::scatter.src_out", (floats(3), 0, torch.tensor([0, 1]), floats(1), floats(3)), "does not fit the input"),
        ("aten::scatter_add.out", (floats(3), 0, torch.tensor([-1]), floats(1), floats(3)), "index -1 is out of range"),
        ("aten::index_put.out", (floats(3), [torch.tensor([3])], floats(1), False, floats(3)), "index 3 is out of range"),
        ("aten::index_put_", (floats(3), [torch.tensor([-4])], floats(1), True), "index -4 is out of range"),
        ("aten::select_scatter.out", (floats(3, 2), floats(2), 0, 3, floats(3, 2)), "index 3 is out of range"),
        ("aten::slice_scatter.out", (floats(3), floats(3), 0, 0, 3, 0, floats(3)), "step must be positive"),
        (
            "aten::masked_scatter.out",
            (floats(3), torch.ones(3, dtype=torch.bool), floats(2), floats(3)),
            "more true elements than the source's 2",
        ),
        ("aten::masked_select.out", (floats(3), floats(3), floats(3)), "the mask must be a bool tensor"),
        ("aten::repeat_interleave.Tensor_out", (torch.tensor([-1]), None, torch.tensor([0])), "must not be negative"),
        (
            "aten::repeat_interleave.Tensor_out",
            (torch.tensor([2**62, 2**62]), None, torch.tensor([0])),
            "repeats are too large",
        ),
        ("aten::reflection_pad1d.out", (floats(1, 3), [3, 0], floats(1, 6)), "padding 3 and 0 is out of range"),
        ("aten::replication_pad1d.out", (floats(1, 3), [2**62, 2**62], floats(1, 3)), "is out of range for a dim of size 3"),
        ("aten::topk.values", (floats(3), 4, -1, True, True, floats(4), torch.ones(4, dtype=torch.int64)), "k is 4"),
        ("aten::as_strided_copy.out", (floats(4), [2], [4], None, floats(2)), "reach beyond the input"),
        ("aten::as_strided_copy.out", (floats(4), [2**62], [2**62], None, floats(2)), "reach beyond the input"),
        ("aten::as_strided_copy.out", (floats(4), [1], [1], -1, floats(1)), "reach beyond the input"),
        ("aten::tril.out", (floats(4), 0, floats(4)), "at least two dims"),
        ("aten::glu.out", (floats(3), 0, floats(1)), "even size"),
        ("aten::rand.out", ([-1], floats(1)), "a size is negative"),
        ("executorch_prim::et_copy_index.tensor", (floats(2, 3), floats(3), -1), "the index is negative"),
        (
            "aten::grid_sampler_2d.out",
            (floats(1, 1, 2, 2), floats(2, 1, 1, 2), 0, 0, False, floats(1, 1, 1, 1)),
            "the grid must be",
        ),
    ],
)  # fmt: skip
def test_an_argument_out_of_range_is_refused_in_a_sentence(
    library: Library, name: str, args: tuple[object, ...], sentence: str
) -> None:
    with pytest.raises(KernelError) as caught:
        library.call(name, *args)
    assert sentence in caught.value.text


def test_an_average_of_the_min_integer_by_a_divisor_of_minus_1_does_not_trap(library: Library) -> None:
    out = torch.empty(1, 1, 1, dtype=torch.int64)
    x = torch.tensor([[[INT64_MIN]]])
    library.call("aten::avg_pool2d.out", x, [1, 1], [1, 1], [0, 0], False, True, -1, out)
    assert out.item() == INT64_MIN


@pytest.mark.parametrize("name", ["aten::index_select.out", "aten::gather.out", "aten::index.Tensor_out"])
def test_an_output_that_overlaps_its_index_is_written_safely(library: Library, name: str) -> None:
    """The output overlaps the index. A kernel that read the index again after its check would use overwritten entries."""
    memory = torch.zeros(5, dtype=torch.int64)
    index, out = memory[:4], memory[1:]
    source = torch.full((4,), 2**40)
    middle: tuple[object, ...] = ([index],) if "Tensor_out" in name else (0, index)
    library.call(name, source, *middle, *([False] if "gather" in name else []), out)
    assert out.tolist() == [2**40] * 4


@pytest.mark.parametrize(("dtype", "one", "limits"), [(torch.int8, 2**16, (0, 0, 0)), (torch.int16, 2**30, (0, 0))])
def test_a_softmax_that_overwrites_its_table_divides_by_no_zero(
    library: Library, dtype: torch.dtype, one: int, limits: tuple[int, ...]
) -> None:
    table = torch.zeros(256 * dtype.itemsize, dtype=torch.int32)
    table[::256] = one
    out = table.view(dtype).reshape(64, 16)
    library.call(f"edgecore::{str(dtype)[6:]}_softmax.out", torch.zeros_like(out), table, *limits, out)
    assert not table.any()


@pytest.mark.parametrize(
    ("dtype", "factor", "limits"),
    [(torch.int8, (2**30, 0), (0, 0, 127, 127)), (torch.int16, (2**15, 1), (32767, 32767))],
)
def test_an_average_that_overwrites_its_windows_reads_only_its_input(
    library: Library, dtype: torch.dtype, factor: tuple[int, int], limits: tuple[int, ...]
) -> None:
    """The ends of windows become large numbers when the first row is written."""
    rows = torch.tensor([[0] * 4, [2] * 4, [1] * 4], dtype=torch.int32)
    columns = rows[:, : 4 // dtype.itemsize].clone()
    out = rows.flatten()[5:9].view(dtype).reshape(1, 1, 4, -1)
    arguments = (
        torch.ones(1, 1, 2, 2, dtype=dtype),
        rows,
        columns,
        torch.tensor([factor], dtype=torch.int32).T.clone(),
    )
    library.call(f"edgecore::{str(dtype)[6:]}_average.out", *arguments, *limits, out)
    assert (out == limits[-1]).all()


def read_only(library: Library, name: str, *args: object) -> str:
    """Call the kernel with all tensors read-only that have no dim of size 2, and return the error message."""
    arguments = Arguments(args)
    for native in arguments.tensors.values():
        if 2 not in native.dl.shape[: native.dl.ndim]:
            native.flags = 1
    code, text = library.run(name, arguments, 1)
    return text if code else ""


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aten::relu.out", (floats(1, 3), floats(1, 3))),
        ("aten::split_copy.Tensor_out", (floats(2, 3), 1, 0, [floats(1, 3), floats(1, 3)])),
        ("aten::max.dim_max", (floats(2, 3), 0, False, floats(3), torch.ones(3, dtype=torch.int64))),
        ("aten::native_layer_norm.out", (floats(2), [2], None, None, 1e-5, floats(2), floats(1), floats(1))),
        ("aten::copy_", (floats(1, 3), floats(1, 3), False)),
        ("aten::full.out", ([3], 1.0, floats(3))),
    ],
)
def test_every_output_is_shown_to_the_host(library: Library, name: str, args: tuple[object, ...]) -> None:
    assert "read-only" in read_only(library, name, *args)


def test_sampling_far_outside_the_image_ends_without_an_error(library: Library) -> None:
    grid = torch.tensor([1e30, -1e30, float("nan"), float("inf")]).reshape(1, 2, 1, 2)
    for interpolation in (0, 1, 2):
        for padding in (0, 1, 2):
            out = torch.empty(1, 1, 2, 1)
            library.call("aten::grid_sampler_2d.out", floats(1, 1, 3, 3), grid, interpolation, padding, False, out)
            assert out.shape == (1, 1, 2, 1)


@pytest.mark.parametrize("kernel", [(200, 150), (2**31 - 1, 2**30)], ids=["wide", "max"])
def test_a_window_far_larger_than_the_image_takes_no_more_time(library: Library, kernel: tuple[int, int]) -> None:
    """The time depends on the image, not on the window of the file. Between two windows there is only padding."""
    size, stride = kernel
    x = torch.arange(12.0).reshape(1, 3, 4)
    largest, where = torch.empty(1, 2, 2), torch.empty(1, 2, 2, dtype=torch.int64)
    args = ([size], [stride], [size // 2])
    if size < 1000:
        largest, where = torch.nn.functional.max_pool2d(x, *(a[0] for a in args), ceil_mode=True, return_indices=True)
    out, indices = torch.empty_like(largest), torch.empty_like(where)
    library.call("aten::max_pool2d_with_indices.out", x, *args, [1], True, out, indices)
    average = torch.empty_like(largest)
    library.call("aten::avg_pool2d.out", x, *args, True, False, None, average)
    if size < 1000:
        torch.testing.assert_close((out, indices), (largest, where))
        expected = torch.nn.functional.avg_pool2d(x, *(a[0] for a in args), ceil_mode=True, count_include_pad=False)
        torch.testing.assert_close(average, expected)
    assert average[0, 0, 0] == 5.5


def test_a_tensor_without_elements_needs_no_work_however_many_pixels_it_has(library: Library) -> None:
    """A tensor without elements may have any size in its other dims, and must need neither time nor memory."""
    many = 2**31 - 1
    x, out = torch.empty(0, 1, 1, many), torch.empty(0, 1, 1, many)
    library.call("aten::avg_pool2d.out", x, [1, 1], [1, 1], [0, 0], False, True, None, out)
    where = torch.empty(0, 1, 1, many, dtype=torch.int64)
    library.call("aten::max_pool2d_with_indices.out", x, [1, 1], [1, 1], [0, 0], [1, 1], False, out, where)
    library.call("aten::_upsample_bilinear2d_aa.out", x, [1, many], False, None, None, out)
    weight = torch.empty(1, 0, 1, 3)
    grad, mask = torch.empty(many, 1, 1, 0), [True, False, False]
    args = (grad, torch.empty(many, 0, 1, 0), weight, None, [1, 1], [0, 1], [1, 1], False, [0, 0], 1, mask)
    gradients = torch.empty(many, 0, 1, 0), weight.clone(), torch.empty(1)
    library.call("aten::convolution_backward.out", *args, *gradients)


def test_no_damaged_call_kills_the_process(library: Library) -> None:
    """Run a seeded part of the calls of `mutate_calls.py`."""
    outcomes = run(library, 3000, seed=1)
    assert not [outcome for outcome in outcomes if outcome.startswith("died")], outcomes
    assert outcomes["refused"] > 500 and outcomes["ran"] > 500
