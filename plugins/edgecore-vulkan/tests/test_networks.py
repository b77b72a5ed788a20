"""Test the structure of blobs of networks: one delegate each, fused activations, few copies between layouts."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn
from vulkan_support import lowered, tensor
from zoo import make

from edgecore_vulkan.schema import graph as s

RUNTIMES = ("executorch-1.5", "edgecore")
COPIES = {"mobilenet_v2": 1, "mobilenet_v3_small": 1, "resnet18": 1, "efficientnet_b0": 1, "unet": 0}


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", COPIES)
def test_one_delegate_takes_the_network(name, runtime):
    model, inputs = make(name)
    compiled = lowered(model, *inputs, runtime=runtime)
    assert len(compiled.results) == 1 and "not delegated" not in compiled.report
    counts = Counter(compiled.calls)
    assert counts["clone.default"] == COPIES[name]
    assert not {"relu.default", "_native_batch_norm_legit_no_training.default"} & (set(counts) - {"relu.default"})
    if name == "mobilenet_v2":
        assert counts["conv_with_clamp.default"] == 35 and counts["convolution.default"] == 17
    if runtime == "executorch-1.5" and name != "unet":
        assert counts["silu.default"] == counts["hardsigmoid.default"] == 0


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_one_delegate_takes_bert(runtime):
    pytest.importorskip("transformers")
    model, inputs = make("bert_mini")
    compiled = lowered(model, *inputs, runtime=runtime)
    assert len(compiled.results) == 1 and "not delegated" not in compiled.report
    graph = compiled.graphs[0]
    assert tensor(graph, graph.input_ids[0]).datatype == s.DataType.INT32


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_one_delegate_takes_packed_attention(runtime):
    model = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    compiled = lowered(model, torch.randn(1, 5, 16), runtime=runtime)
    assert len(compiled.results) == 1 and "not delegated" not in compiled.report
    ranks = [len(entry.value.dims) for entry in compiled.graphs[0].values if isinstance(entry.value, s.VkTensor)]
    assert max(ranks) <= 4


def test_images_are_held_channels_packed_and_matrices_width_packed():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    compiled = lowered(model, torch.randn(1, 3, 8, 8))
    (graph,) = compiled.graphs
    assert compiled.calls == [
        "convolution.default", "hardswish.default", "mean.dim", "clone.default", "view_copy.default", "linear.default",
    ]  # fmt: skip
    layouts = [tensor(graph, call.args[-1]).memory_layout.name for call in graph.chain]
    assert layouts == ["CHANNELS_PACKED"] * 3 + ["WIDTH_PACKED"] * 3
    assert tensor(graph, graph.input_ids[0]).memory_layout == s.Layout.CHANNELS_PACKED


def test_edgecore_holds_all_tensors_in_buffers():
    (graph,) = lowered(nn.Conv2d(3, 8, 3), torch.randn(2, 3, 8, 8), runtime="edgecore").graphs
    assert tensor(graph, graph.output_ids[0]).storage_type == s.Storage.BUFFER
    assert tensor(graph, graph.output_ids[0]).memory_layout == s.Layout.CHANNELS_PACKED


def test_a_copy_serves_several_readers():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward(self, x):
            x = self.conv(x)
            return x.softmax(1) + 1, x.softmax(2) + 1

    assert lowered(Heads(), torch.randn(1, 3, 8, 8)).calls.count("clone.default") == 1


def test_views_of_views_and_permutes_of_permutes_are_merged():
    compiled = lowered(lambda x: x.view(8, 8).view(16, 4).view(4, 16) + 1, torch.randn(4, 16))
    assert compiled.calls == ["add.Tensor"]
    compiled = lowered(lambda x: x.permute(1, 2, 0).permute(2, 0, 1) + 1, torch.randn(2, 3, 4))
    assert compiled.calls == ["add.Tensor"]


def test_a_clamp_is_fused_only_if_nothing_else_reads_the_convolution():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward(self, x):
            x = self.conv(x)
            return torch.relu(x), x.tanh()

    assert "conv_with_clamp.default" not in lowered(Both(), torch.randn(1, 3, 8, 8)).calls


def test_outputs_that_are_inputs_or_the_same_tensor_are_copied():
    class Mixed(nn.Module):
        def forward(self, a, b):
            return a.to(torch.int32), b + 1

    compiled = lowered(Mixed(), torch.arange(4), torch.randn(4))
    for graph in compiled.graphs:
        assert len(set(graph.output_ids) | set(graph.input_ids)) == len(graph.output_ids) + len(graph.input_ids)


def test_memory_is_shared_by_tensors_that_do_not_live_at_the_same_time():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4)])
    (graph,) = lowered(model, torch.randn(2, 8)).graphs
    held = [
        entry.value for entry in graph.values if isinstance(entry.value, s.VkTensor) and entry.value.constant_id < 0
    ]
    assert {value.mem_obj_id for value in held} == {0, 1}
    (graph,) = lowered(model, torch.randn(2, 8), skip_memory_planning=True).graphs
    held = [entry.value for entry in graph.values if isinstance(entry.value, s.VkTensor)]
    assert {value.mem_obj_id for value in held} == {-1}


def test_symbolic_sizes_are_upper_bounds_and_one_may_be_inferred():
    length = torch.export.Dim("length", min=5, max=32)
    model = nn.Sequential(nn.Embedding(10, 8), nn.LayerNorm(8), nn.Linear(8, 4))
    for runtime in RUNTIMES:
        compiled = lowered(model, torch.arange(8)[None], runtime=runtime, dynamic_shapes=({1: length},))
        (graph,) = compiled.graphs
        assert tensor(graph, graph.input_ids[0]).dims == [1, 32]
        assert tensor(graph, graph.output_ids[0]).dims == [1, 32, 4]


def test_a_size_is_an_input_of_the_delegate():
    batch = torch.export.Dim("batch", min=2, max=16)
    compiled = lowered(
        lambda x: (x + 1, torch.arange(x.shape[0]) * 2),
        torch.randn(4, 8),
        runtime="edgecore",
        dynamic_shapes=(({0: batch},),),
    )
    (graph,) = compiled.graphs
    assert isinstance(graph.values[graph.input_ids[1]].value, s.SymInt)
    (call,) = (call for call in graph.chain if call.name == "aten.arange.start_step")
    assert call.args[1] == graph.input_ids[1]
