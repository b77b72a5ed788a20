"""Count what a run of a blob costs: dispatches, copies, and bytes of weights and arguments."""

from __future__ import annotations

from dataclasses import dataclass

from edgecore_vulkan.schema import graph as s

_VIEWS = frozenset({
    "aten.view_copy.default", "aten.squeeze_copy.dims", "aten.unsqueeze_copy.default", "et_vk.prepack.default",
})  # fmt: skip
"""Operators whose result shares the memory of the input if the order of elements does not change."""

_STATE = "edgecore.state.default"
"""Call that declares a buffer of the delegate, and computes nothing."""

_CAT, _SPLIT, _CLONE = "aten.cat.default", "aten.split_with_sizes_copy.default", "aten.clone.default"
_BYTES = {
    s.DataType.BOOL: 1, s.DataType.UINT8: 1, s.DataType.INT8: 1, s.DataType.FLOAT16: 2, s.DataType.INT32: 4,
    s.DataType.FLOAT32: 4, s.DataType.FLOAT64: 8, s.DataType.INT64: 8,
}  # fmt: skip


@dataclass(frozen=True)
class Costs:
    """The costs of one run of a blob, with all symbolic sizes at their maximum.

    Attributes:
        calls: Operator calls, except those that prepare constants or declare buffers.
        dispatches: Estimated shader dispatches, mostly one per operator; for some sizes the delegate needs more.
        copies: Calls that copy a tensor to another layout.
        weights: Size of all constants in bytes.
        staged: Number of input and output tensors; each is copied once between host and device.
        staged_bytes: Size of the input and output tensors in bytes.
        reordered: Number of input and output tensors that the device also converts to another layout or dtype.
    """

    calls: int
    dispatches: int
    copies: int
    weights: int
    staged: int
    staged_bytes: int
    reordered: int

    def __str__(self) -> str:
        return (
            f"about {self.dispatches} dispatches for {self.calls} operator calls, copies between layouts: "
            f"{self.copies}; weights: {self.weights:,} bytes; at the borders: {self.staged} staging copies of "
            f"{self.staged_bytes:,} bytes, "
            f"reordered: {self.reordered}"
        )


def costs(graph: s.Graph) -> Costs:
    """Estimate the costs of one run of a blob's graph."""
    calls = [call for call in graph.chain if call.name not in ("et_vk.prepack.default", _STATE)]
    ends = [_tensor(graph, number) for number in (*graph.input_ids, *graph.output_ids)]
    tensors = [tensor for tensor in ends if tensor is not None]
    reordered = sum(not _is_row_major(tensor) or _changes_dtype(tensor) for tensor in tensors)
    return Costs(
        len(calls),
        sum(_dispatches(graph, call) for call in graph.chain) + reordered,
        sum(call.name == _CLONE for call in calls),
        sum(constant.length for constant in graph.constants),
        len(tensors),
        sum(_size(tensor) for tensor in tensors),
        reordered,
    )


def _dispatches(graph: s.Graph, call: s.OperatorCall) -> int:
    if call.name == _STATE:
        return 0
    if call.name in _VIEWS:
        tensors = [_tensor(graph, call.args[0]), _tensor(graph, call.args[-1])]
        is_free = all(tensor is not None and _is_row_major(tensor) for tensor in tensors)
        return int(not is_free or call.args[-1] in graph.output_ids)
    if call.name in (_CAT, _SPLIT):
        parts = graph.values[call.args[0 if call.name == _CAT else -1]].value
        return len(parts.items) if isinstance(parts, s.ValueList) else 1
    return 1


def _tensor(graph: s.Graph, number: int) -> s.VkTensor | None:
    value = graph.values[number].value
    return value if isinstance(value, s.VkTensor) else None


def _is_row_major(tensor: s.VkTensor) -> bool:
    """Return True if elements are in row-major order: channels are not packed, or there is one channel or one pixel."""
    if tensor.memory_layout != s.Layout.CHANNELS_PACKED or len(tensor.dims) not in (3, 4):
        return True
    channels, height, width = tensor.dims[-3:]
    return channels == 1 or height * width == 1


def _changes_dtype(tensor: s.VkTensor) -> bool:
    halves = {tensor.datatype == s.DataType.FLOAT16, tensor.staging_datatype == s.DataType.FLOAT16}
    return tensor.staging_datatype != s.DataType.UNSET and len(halves) == 2


def _size(tensor: s.VkTensor) -> int:
    dtype = tensor.datatype if tensor.staging_datatype == s.DataType.UNSET else tensor.staging_datatype
    count = _BYTES[dtype]
    for size in tensor.dims:
        count *= size
    return count
