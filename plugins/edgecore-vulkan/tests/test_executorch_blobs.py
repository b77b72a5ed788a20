"""Run files that executorch's own Vulkan partitioner made: its blobs name textures, packed layouts and aliases."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import nn

import edgecore

QUICK = "unet"
NETWORKS = (QUICK, "mobilenet_v2", "mobilenet_v3_small", "resnet18", "efficientnet_b0", "bert_mini")


def check_on_device(
    model: nn.Module,
    *inputs: torch.Tensor,
    delegates: int = 1,
    tolerance: float = 1e-4,
    dynamic_shapes=None,
    others: Sequence[tuple[torch.Tensor, ...]] = (),
    **options,
) -> None:
    """Lower a model by executorch alone, run the file on the device, and compare with PyTorch.

    Args:
        delegates: The number of delegates in the file.
        dynamic_shapes: As in `torch.export.export`.
        others: More inputs to run the file with, of other sizes.
        tolerance: The greatest relative error of an output.
        options: Options of executorch's partitioner.
    """
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.exir import to_edge_transform_and_lower

    exported = torch.export.export(model.eval(), inputs, dynamic_shapes=dynamic_shapes)
    edge = to_edge_transform_and_lower(exported, partitioner=[VulkanPartitioner(options)])
    program = edge.to_executorch()
    plan = program.pte.program.execution_plan[0]
    assert [delegate.id for delegate in plan.delegates] == ["VulkanBackend"] * delegates
    loaded = edgecore.load(bytes(program.buffer), options={"vulkan": {"validation": True}})
    for given in (inputs, *others):
        with torch.no_grad():
            expected = model(*given)
        results = loaded.forward(*given)
        if isinstance(expected, torch.Tensor):
            expected, results = [expected], [results]
        for ours, theirs in zip(results, expected, strict=True):
            result = torch.as_tensor(ours)
            assert result.dtype == theirs.dtype and result.shape == theirs.shape
            assert torch.linalg.vector_norm(result - theirs) <= tolerance * torch.linalg.vector_norm(theirs)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == QUICK else pytest.mark.full) for name in NETWORKS]
)
def test_networks_of_executorch_run_on_the_device(name):
    from zoo import make

    if name == "bert_mini":
        pytest.importorskip("transformers")
    model, inputs = make(name)
    if inputs[0].dim() == 4:
        inputs = (torch.randn(1, 3, 64, 64),)
    # executorch leaves the additions of BERT's boolean masks to its kernels, which splits the network.
    check_on_device(model, *inputs, delegates=9 if name == "bert_mini" else 1)


class OtherNames(nn.Module):
    """Operators that executorch writes under other names than edgecore, or with results that nothing reads."""

    def forward(self, x, numbers):
        return nn.functional.max_pool2d(x, 2) + torch.ones(3), numbers.to(torch.float32) * 0.5


@pytest.mark.parametrize("half", [False, True])
def test_other_names_of_operators_are_understood(half):
    inputs = (torch.randn(1, 8, 6, 6), torch.arange(15, dtype=torch.int32).view(3, 5))
    check_on_device(OtherNames(), *inputs, force_fp16=half, tolerance=1e-2 if half else 1e-4)
