"""Convert functions with coremltools."""

import warnings
from collections.abc import Callable
from typing import Any

import coremltools as ct
import torch

warnings.simplefilter("ignore")


def convert(function: Callable[..., Any], *inputs: torch.Tensor, target: Any = ct.target.iOS17) -> list[Any]:
    """Return the operators of the converted program, but constants."""

    class Model(torch.nn.Module):
        def forward(self, *values: torch.Tensor) -> Any:
            return function(*values)

    exported = torch.export.export(Model(), inputs).run_decompositions({})
    model = ct.convert(exported, minimum_deployment_target=target, compute_precision=ct.precision.FLOAT32)
    return [op for op in model._mil_program.functions["main"].operations if op.op_type != "const"]
