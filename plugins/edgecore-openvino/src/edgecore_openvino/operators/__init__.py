"""The operators that OpenVINO supports: one table for the partitioner, the lowering and the README."""

from __future__ import annotations

import torch

from edgecore.sdk import NodeQuery, OperatorTable, at_most_dims, contiguous_only
from edgecore_openvino.blob import MAX_RANK
from edgecore_openvino.operators import elementwise, networks, quantized, shapes


def _tensors(query: NodeQuery) -> list[torch.Tensor]:
    """List the input tensors of a call, and its result if the call has only one result."""
    vals = [source.meta.get("val") for source in query.node.all_input_nodes] + [query.node.meta["val"]]
    return [val for val in vals if isinstance(val, torch.Tensor)]


def _no_empty(query: NodeQuery) -> str | None:
    is_empty = any(0 in val.shape for val in _tensors(query))
    return "a tensor without elements" if is_empty else None


def _static_sizes(query: NodeQuery) -> str | None:
    is_symbolic = any(not isinstance(size, int) for val in _tensors(query) for size in val.shape)
    return "symbolic sizes, which payload='blob' does not support" if is_symbolic else None


_ROWS = (*elementwise.ROWS, *shapes.ROWS, *networks.ROWS, *quantized.ROWS)
_COMMON = (contiguous_only, at_most_dims(MAX_RANK), _no_empty)
TABLE = OperatorTable(_ROWS, _COMMON)
STATIC_TABLE = OperatorTable(_ROWS, (*_COMMON, _static_sizes))
"""The table for `payload="blob"`: the delegate cannot infer shapes with a compiled model, so all sizes are fixed."""
