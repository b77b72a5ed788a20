"""Lower models by executorch's own Vulkan partitioner alone, and run the files on the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

import edgecore


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
    plan = program.executorch_program.execution_plan[0]
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
