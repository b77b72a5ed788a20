"""Test that quantized models agree with executorch: our calls with its registry, and its files with our delegate."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from vulkan_support import lowered

import edgecore
from edgecore_vulkan.blob.format import read_graph

pytest.importorskip("executorch.backends.vulkan.op_registry")
pytest.importorskip("torchao")

from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.backends.vulkan.quantizer import vulkan_quantizer as theirs
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch_registry import check
from torchao.quantization.granularity import PerGroup
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from vulkan_layers import ROWS, Net, quantized

from edgecore_vulkan import quantizer as ours


def test_calls_agree_with_the_registry():
    for bits, granularity in ((torch.int4, PerGroup(32)), (torch.int8, ROWS)):
        for is_dynamic in (True, False):
            layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 6))
            (graph,) = lowered(quantized(layers, bits, granularity, is_dynamic), torch.randn(4, 64)).graphs
            check(graph)
    samples = [(torch.randn(1, 3, 16, 16),)]
    program = edgecore.compile(Net().eval(), samples[0], backends=["vulkan"], quantize="int8", calibration=samples)
    for blob in program.pte.delegate_blobs:
        check(read_graph(blob))


def converted(model: nn.Module, x: torch.Tensor, module, **options) -> nn.Module:
    """Quantize a model by the PT2E flow with the quantizer of a module, ours or executorch's."""
    quantizer = module.VulkanQuantizer().set_global(module.get_symmetric_quantization_config(**options))
    prepared = prepare_pt2e(torch.export.export(model.eval(), (x,)).module(), quantizer)
    prepared(x)
    return convert_pt2e(prepared)


ROW, IMAGE = torch.randn(4, 64), torch.randn(1, 4, 9, 9)
IMAGES = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, groups=8), nn.Conv2d(8, 12, 1))
MODELS = {
    "linear_dq8ca_q4gsw": lambda: (quantized(nn.Sequential(nn.Linear(64, 40)), torch.int4, PerGroup(32), True), ROW),
    "linear_qcs4w": lambda: (converted(nn.Linear(64, 40), ROW, theirs, weight_bits=4), ROW),
    "dequantize_affine": lambda: (quantized(nn.Sequential(nn.Linear(64, 40)), torch.int8, ROWS, True), ROW),
    "dequantize_per_channel": lambda: (converted(nn.Linear(64, 40), ROW, theirs, is_dynamic=True), ROW),
    "q8ta_conv2d_dw": lambda: (converted(IMAGES, IMAGE, ours, is_static=True), IMAGE),
}
"""Models by a call that executorch writes for each."""


QUICK = ("linear_dq8ca_q4gsw", "q8ta_conv2d_dw")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in MODELS]
)
def test_files_of_executorch_compute_what_eager_does(name):
    model, x = MODELS[name]()
    config = EdgeCompileConfig(_check_ir_validity=False)
    edge = to_edge_transform_and_lower(
        torch.export.export(model, (x,)), partitioner=[VulkanPartitioner()], compile_config=config
    )
    buffer = bytes(edge.to_executorch().buffer)
    assert f".{name}.default".encode() in buffer
    got = edgecore.load(buffer, options={"vulkan": {"validation": True}}).forward(x)
    got = got[0] if isinstance(got, (list, tuple)) else got
    # Where it dequantizes weights of 8 bits, executorch drops the quantization of activations.
    tolerance = 2e-2 if name.startswith("dequantize") else 1e-5
    torch.testing.assert_close(torch.as_tensor(got), model(x), rtol=tolerance, atol=tolerance)
