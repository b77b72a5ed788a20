"""`ScalarToTensorPass`: replace numbers by tensors."""

from __future__ import annotations

from typing import Any

import torch

from edgecore.ir.torch_compat import OpOverload
from edgecore.passes.base import ExportPass
from edgecore.passes.proxy_value import NodeMetadata, map_args


class ScalarToTensorPass(ExportPass):
    """Replaces each number that stands for a tensor argument by a tensor without dims, for backends that need this."""

    def call_operator(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata) -> Any:
        if isinstance(op, OpOverload):
            args, kwargs = map_args(op, _as_tensor, args, kwargs)
        return super().call_operator(op, args, kwargs, meta)


def _as_tensor(value: Any, spec: torch.Argument) -> Any:
    is_number = isinstance(spec.type, torch.TensorType) and isinstance(value, (bool, int, float))
    return torch.tensor(value) if is_number else value
