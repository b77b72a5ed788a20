"""What the Hello backend takes, as data. The partitioner, its reasons and the table in the README come from here.

To add an operator: a row here, a number in `blob.py` and `native/src/blob.h`, and its code in `native/src/delegate.cpp`.
"""

from __future__ import annotations

import torch
from torch.fx import Node

from edgecore.partition import OperatorRow, OperatorTable, at_most_dims, contiguous_only
from edgecore_hello.blob import MAX_RANK

aten = torch.ops.aten


def _alpha(node: Node) -> str | None:
    alpha = node.kwargs.get("alpha", 1)
    return None if alpha == 1 else f"alpha is {alpha}"


TABLE = OperatorTable(
    [
        OperatorRow(aten.add.Tensor, (torch.float32,), "any broadcasting; alpha must be 1", refuses=_alpha),
        OperatorRow(aten.mul.Tensor, (torch.float32,), "any broadcasting"),
        OperatorRow(aten.relu.default, (torch.float32,)),
    ],
    common=[contiguous_only, at_most_dims(MAX_RANK)],
)
