"""The table of supported operators: the source of the partitioner, its reasons, the README's table and the blobs.

To add an operator: add its number to `blob.py` and `native/src/blob.h`, a row with the number here, and its code to
`native/src/delegate.cpp`.
"""

from __future__ import annotations

import torch

from edgecore.sdk import NodeQuery, OperatorRow, OperatorTable, at_most_dims, contiguous_only
from edgecore_hello.blob import MAX_RANK, Op

aten = torch.ops.aten


def _alpha(query: NodeQuery) -> str | None:
    alpha = query.argument("alpha")
    return None if alpha == 1 else f"alpha is {alpha}"


TABLE = OperatorTable(
    [
        OperatorRow(aten.add.Tensor, (torch.float32,), "any broadcasting; alpha must be 1", _alpha, lower=Op.ADD),
        OperatorRow(aten.mul.Tensor, (torch.float32,), "any broadcasting", lower=Op.MUL),
        OperatorRow(aten.relu.default, (torch.float32,), lower=Op.RELU),
    ],
    common=[contiguous_only, at_most_dims(MAX_RANK)],
)
