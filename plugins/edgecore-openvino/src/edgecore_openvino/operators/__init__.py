"""The operators that OpenVINO supports: partitioner, reasons, the README's table and the models come from here."""

from __future__ import annotations

import torch

from edgecore.sdk import NodeQuery, OperatorTable, at_most_dims, contiguous_only
from edgecore_openvino.blob import MAX_RANK
from edgecore_openvino.operators import elementwise, networks, quantized, shapes


def _tensors(query: NodeQuery) -> list[torch.Tensor]:
    """List the tensors that a call reads, and the one that it returns if it returns a single one."""
    vals = [source.meta.get("val") for source in query.node.all_input_nodes] + [query.node.meta["val"]]
    return [val for val in vals if isinstance(val, torch.Tensor)]


def _no_empty(query: NodeQuery) -> str | None:
    empty = any(0 in val.shape for val in _tensors(query))
    return "a tensor without elements" if empty else None


def _fixed_sizes(query: NodeQuery) -> str | None:
    vary = any(not isinstance(size, int) for val in _tensors(query) for size in val.shape)
    return "sizes that vary, which payload='blob' cannot hold" if vary else None


_ROWS = (*elementwise.ROWS, *shapes.ROWS, *networks.ROWS, *quantized.ROWS)
_COMMON = (contiguous_only, at_most_dims(MAX_RANK), _no_empty)
TABLE = OperatorTable(_ROWS, _COMMON)
FIXED_SIZES = OperatorTable(_ROWS, (*_COMMON, _fixed_sizes))
"""The table for `payload="blob"`: the delegate cannot ask a compiled model which shapes it returns."""
