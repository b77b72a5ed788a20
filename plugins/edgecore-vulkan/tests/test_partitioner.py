"""Test the reasons why operators are not delegated, and the options."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import nn
from vulkan_support import lowered, tensor

from edgecore_vulkan.compiler import VulkanCompiler
from edgecore_vulkan.graph.profile import Profile
from edgecore_vulkan.operators import TABLE
from edgecore_vulkan.options import VulkanOptions
from edgecore_vulkan.schema import graph as s

V, B = torch.randn(4, 16), torch.randn(4, 16) > 0
X = torch.randn(1, 8, 12, 12)
STOCK = "executorch-1.5"
REASONS = [
    (lambda a: torch.fft.rfft(a).real, (V,), "not among the backend's operators"),
    (lambda a, b: a + b, (torch.ones(4, dtype=torch.float64),) * 2, "is float64, not float32 or float16"),
    (lambda a, b: a + b, (V, torch.ones(4, 16, dtype=torch.int32)), None),
    (lambda a: a + 2**31, (torch.arange(4),), "other has integers of more than 32 bits"),
    (torch.log, (V,), "executorch 1.5's delegate has no such operator"),
    (torch.maximum, (torch.arange(4), torch.arange(4)), "integers, which executorch 1.5 has no maximum for"),
    (lambda a: a.permute(0, 1, 3, 2, 4) + 1, (torch.randn(1, 2, 3, 4, 5),), "a tensor has 5 dims, more than 4"),
    (nn.Conv2d(8, 4, 3), (torch.randn(9, 8, 12, 12),), "a batch of 9: executorch 1.5 convolves one image at a time"),
    (nn.Conv2d(8, 8, 3, groups=2), (X,), "groups that are not depthwise"),
    (nn.ConvTranspose2d(8, 4, 3, dilation=2), (X,), "a dilated transposed convolution"),
    (F.conv2d, (X, torch.randn(4, 8, 3, 3)), "weights that are computed"),
    (F.linear, (V, torch.randn(4, 16)), None),
    (lambda a, w: F.layer_norm(a, (16,), w), (V, torch.randn(16)), None),
    (nn.AdaptiveAvgPool2d(5), (X,), "windows of different sizes"),
    (nn.AvgPool2d(2), (torch.randn(8, 12, 12),), "3 dims instead of 4"),
    (lambda a: torch.cat([a > 0, a > 1]), (V,), "aten.cat.default of bool"),
    (lambda a, b, c: torch.where(c, a, b), (torch.arange(4), torch.arange(4), torch.ones(4) > 0), "aten.where.self of int64"),
    (lambda a: a.sum(dtype=torch.float16), (V,), "it changes the dtype"),
    (partial(F.max_pool2d_with_indices, kernel_size=2), (X,), "result 1 is read"),
    (lambda a: a.argmax(0), (torch.arange(4),), "int64"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "inputs", "reason"), REASONS)
def test_each_operator_outside_has_its_reason(model, inputs, reason):
    report = lowered(model, *inputs).report
    assert ("not delegated" not in report) if reason is None else (reason in report)


def test_symbolic_sizes_that_a_call_cannot_follow():
    rows = torch.export.Dim("rows", min=3, max=16)
    shapes = (({0: rows},),)
    report = lowered(lambda a: a.repeat(2, 1) + 1, V, dynamic_shapes=shapes).report
    assert "symbolic sizes" in report
    report = lowered(lambda a: a.unsqueeze(0).expand(3, -1, -1) + 1, V, dynamic_shapes=shapes).report
    assert "symbolic sizes, which executorch 1.5 does not support in aten.expand_copy.default" in report
    report = lowered(lambda a: a * a.shape[0], V, dynamic_shapes=shapes).report
    assert "bakes s" in report


def test_require_dynamic_shapes():
    report = lowered(lambda a: a.repeat(2, 1) + 1, V, require_dynamic_shapes=True).report
    assert "aten.repeat.default does not support other sizes, and require_dynamic_shapes is set" in report
    assert VulkanOptions(required_dynamic_shapes=True).require_dynamic_shapes


def test_skip_bool_tensors():
    assert (
        "is bool, and skip_bool_tensors is set"
        in lowered(lambda a: (a > 0) & (a < 1), V, skip_bool_tensors=True).report
    )


def test_texture_limits_keep_tensors_outside():
    wide = torch.randn(1, 1, 4, 3000)
    report = lowered(nn.Conv2d(1, 4, 3), wide, small_texture_limits=True).report
    assert "a tensor fits neither the texture limits nor a buffer that the operator supports" in report
    assert "not delegated" not in lowered(nn.Conv2d(1, 4, 3), wide).report
    assert "not delegated" in lowered(nn.Conv2d(1, 4, 3), wide, texture_limits=(100, 100, 100)).report
    assert "more than buffer_limit=8" in lowered(lambda a: a + 1, V, runtime="edgecore", buffer_limit=8).report


def test_operators_and_min_operators():
    assert "left out by an option" in lowered(lambda a: a.tanh() + 1, V, operators=("tanh",)).report
    assert "in a partition of 2 operators, fewer than 3" in lowered(lambda a: a.tanh() + 1, V, min_operators=3).report


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"operators": ("adder",)}, "no operator 'adder'"),
        ({"min_operators": 0}, "greater than or equal to 1"),
        ({"storage_type_override": "texture_2d"}, "'default', 'buffer' or 'texture_3d'"),
        ({"memory_layout_override": "height_packed"}, "'default', 'width_packed' or 'channels_packed'"),
        ({"texture_limits": (1, 2)}, "three numbers above 0"),
        ({"fast": True}, "Extra inputs"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        VulkanOptions(**options)


def test_force_fp16_holds_float16_and_takes_float32():
    (graph,) = lowered(nn.Linear(16, 4), V, force_fp16=True).graphs
    for number in (*graph.input_ids, *graph.output_ids):
        value = tensor(graph, number)
        assert (value.datatype, value.staging_datatype) == (s.DataType.FLOAT16, s.DataType.FLOAT32)
    assert [constant.length for constant in graph.constants] == [128, 8]


def test_force_fp16_keeps_constants_finite():
    compiled = lowered(lambda a: a + torch.tensor([1e9, -1e9] * 8), V, force_fp16=True)
    (blob,) = compiled.results[0].named_data.values()
    assert torch.frombuffer(bytearray(blob.data), dtype=torch.float16).isfinite().all()


def test_overrides_choose_among_the_memories_of_an_operator():
    (graph,) = lowered(lambda a: a + 1, X, storage_type_override="buffer").graphs
    assert tensor(graph, graph.output_ids[0]).storage_type == s.Storage.BUFFER
    (graph,) = lowered(lambda a: a + 1, X, memory_layout_override="channels_packed").graphs
    assert tensor(graph, graph.output_ids[0]).memory_layout == s.Layout.CHANNELS_PACKED


def test_compile_specs_carry_the_profile():
    options = VulkanOptions(
        force_fp16=True, require_dynamic_shapes=True, skip_bool_tensors=True, texture_limits=(1, 2, 3), buffer_limit=9,
        storage_type_override="buffer", memory_layout_override="channels_packed", skip_memory_planning=True,
    )  # fmt: skip
    for runtime in (STOCK, "edgecore"):
        profile = options.profile(runtime)
        assert Profile.of_specs(profile.specs()) == profile
    assert Profile().specs() == []


def test_the_report_counts_calls_copies_and_weights():
    report = lowered(nn.Sequential(nn.Conv2d(8, 4, 3), nn.Flatten()), X).report
    line = "delegate 0: about 4 dispatches for 3 operator calls, copies between layouts: 1; weights: 1,168 bytes;"
    assert line in report


def test_support_lists_every_row():
    rows = VulkanCompiler().operator_support()
    assert len(rows) == len(TABLE.rows)
    assert next(row for row in rows if row.operator == "aten.silu.default").dtypes == ("float32", "float16")
