"""What the OpenVINO backend takes, as data: partitioner, reasons, the README's table and the models come from here."""

from __future__ import annotations

import torch
from torch.fx import Node

from edgecore.partition import OperatorTable, contiguous_only
from edgecore.partition.table import at_most_dims
from edgecore_openvino.blob import MAX_RANK
from edgecore_openvino.operators import elementwise, networks, quantized, shapes
from edgecore_openvino.operators.builder import Row


def _no_empty(node: Node) -> str | None:
    vals = [source.meta.get("val") for source in node.all_input_nodes] + [node.meta["val"]]
    empty = any(isinstance(val, torch.Tensor) and 0 in val.shape for val in vals)
    return "a tensor without elements" if empty else None


def _fixed_sizes(node: Node) -> str | None:
    vals = [source.meta.get("val") for source in node.all_input_nodes] + [node.meta["val"]]
    tensors = [val for val in vals if isinstance(val, torch.Tensor)]
    vary = any(not isinstance(size, int) for val in tensors for size in val.shape)
    return "sizes that vary, which payload='blob' cannot hold" if vary else None


ROWS: dict[object, Row] = {
    row.target: row for row in (*elementwise.ROWS, *shapes.ROWS, *networks.ROWS, *quantized.ROWS)
}
_COMMON = (contiguous_only, at_most_dims(MAX_RANK), _no_empty)
TABLE = OperatorTable(ROWS.values(), _COMMON)
FIXED_SIZES = OperatorTable(ROWS.values(), (*_COMMON, _fixed_sizes))
"""Of a compiled model the delegate cannot ask what shapes it gives."""
