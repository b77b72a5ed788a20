"""Run models on the first Vulkan device, with validation layers, and compare the results with PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from vulkan_support import Function

import edgecore

RUNTIMES = ("executorch-1.5", "edgecore")


def check_on_device(
    model,
    *inputs: torch.Tensor,
    runtimes: Sequence[str] = RUNTIMES,
    tolerance: float = 1e-4,
    dynamic_shapes=None,
    others: Sequence[tuple[torch.Tensor, ...]] = (),
    load_options: Mapping[str, object] | None = None,
    **options,
) -> None:
    """Run a model or function as one delegate for each runtime, and compare each result with PyTorch's.

    Args:
        tolerance: Relative and absolute tolerance of results of floats; others must be equal.
        others: More inputs to run with, in other sizes.
        load_options: Options of the backend when the program is loaded.
        options: Options of the backend.
    """
    module = (model if isinstance(model, torch.nn.Module) else Function(model)).eval()
    for runtime in runtimes:
        backend = edgecore.Backend("vulkan", **options)
        program = edgecore.compile(module, inputs, backends=[backend], runtime=runtime, dynamic_shapes=dynamic_shapes)
        report = str(program.report())
        assert "delegates: 1 x VulkanBackend" in report and "not delegated" not in report, report
        loaded = edgecore.load(program.buffer, options={"vulkan": {"validation": True, **(load_options or {})}})
        for given in (inputs, *others):
            expected = module(*given)
            results = loaded.forward(*given)
            many = isinstance(expected, (tuple, list))
            pairs = zip(results, expected, strict=True) if many else [(results, expected)]
            for ours, theirs in pairs:
                result = torch.as_tensor(ours)
                assert result.dtype == theirs.dtype
                torch.testing.assert_close(result, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)
