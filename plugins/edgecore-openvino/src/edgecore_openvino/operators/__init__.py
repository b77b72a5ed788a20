"""The operators that OpenVINO supports: one table for the partitioner, the lowering and the README."""

from __future__ import annotations

from edgecore.sdk import OperatorTable, at_most_dims, contiguous_only, no_empty_tensors, static_sizes
from edgecore_openvino.blob.format import MAX_RANK
from edgecore_openvino.operators import elementwise, networks, quantized, shapes

_ROWS = (*elementwise.ROWS, *shapes.ROWS, *networks.ROWS, *quantized.ROWS)
_COMMON = (contiguous_only, at_most_dims(MAX_RANK), no_empty_tensors)
TABLE = OperatorTable(_ROWS, _COMMON)
_SYMBOLIC = "symbolic sizes, which payload='blob' does not support"
STATIC_TABLE = OperatorTable(_ROWS, (*_COMMON, static_sizes(_SYMBOLIC)))
"""The table for `payload="blob"`: the delegate cannot infer shapes with a compiled model, so all sizes are fixed."""
