"""`ScalarToTensorPass`: numbers in the place of tensors become tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from edgecore.passes.base import ExportPass


class ScalarToTensorPass(ExportPass):
    """Replaces each number that an operator takes as a tensor by a tensor without dims, for backends that need one."""

    def call_operator(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: dict[str, Any]) -> Node:
        """Visit a call."""
        if isinstance(op, OpOverload):
            args, kwargs = list(args), dict(kwargs)  # type: ignore[assignment]
            for index, argument in enumerate(op._schema.arguments):
                if not isinstance(argument.type, torch.TensorType):
                    continue
                place: Any = args if index < len(args) else kwargs
                key: Any = index if index < len(args) else argument.name
                if index < len(args) or argument.name in kwargs:
                    value = place[key]
                    place[key] = torch.tensor(value) if isinstance(value, (bool, int, float)) else value
            args = tuple(args)
        return super().call_operator(op, args, kwargs, meta)
