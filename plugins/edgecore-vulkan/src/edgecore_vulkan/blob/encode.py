"""Write the operator calls of a partition as the graph of a blob."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import torch

from edgecore.plugin import NamedBlob
from edgecore.sdk import debug_handles
from edgecore_vulkan.blob.format import ALIGNMENT, write_graph
from edgecore_vulkan.graph.calls import Argument, Call, CallGraph, SizeValue, TensorValue
from edgecore_vulkan.graph.profile import Profile
from edgecore_vulkan.schema import graph as s

_NARROW = {torch.int64: torch.int32, torch.float64: torch.float32}
_TYPES = {
    torch.bool: s.DataType.BOOL, torch.uint8: s.DataType.UINT8, torch.int8: s.DataType.INT8,
    torch.int32: s.DataType.INT32, torch.float16: s.DataType.FLOAT16, torch.float32: s.DataType.FLOAT32,
}  # fmt: skip


@dataclass
class Encoded:
    """A blob, its named data (key -> bytes), and the debug handles of each operator call by the call's number."""

    blob: bytes
    named_data: dict[str, NamedBlob] = field(default_factory=dict)
    handles: dict[int | str, tuple[int, ...]] = field(default_factory=dict)


def held_dtype(dtype: torch.dtype, profile: Profile) -> torch.dtype:
    """Return the dtype in which the delegate stores a value of `dtype` on the device, such as int32 for int64."""
    narrow = _NARROW.get(dtype, dtype)
    return torch.float16 if profile.force_fp16 and narrow == torch.float32 else narrow


def encode(graph: CallGraph, profile: Profile) -> Encoded:
    """Write a graph of calls as a blob. `assign_memories` must have chosen the memories of all tensors."""
    return _Encoder(graph, profile).run()


class _Encoder:
    def __init__(self, graph: CallGraph, profile: Profile) -> None:
        self.source = graph
        self.profile = profile
        self.graph = s.Graph(version="0")
        self.result = Encoded(b"")
        self.ids: dict[Any, int] = {}
        self.keys: dict[str, int] = {}
        self.reading: tuple[int, ...] = ()  # debug handles of the call that is being written

    def run(self) -> Encoded:
        self.graph.input_ids = [self.id(value) for value in self.source.inputs]
        for call in self.source.calls:
            self._call(call)
        self.graph.output_ids = [self.id(value) for value in self.source.outputs]
        self.result.blob = write_graph(self.graph)
        return self.result

    def _call(self, call: Call) -> None:
        number = len(self.graph.chain)
        self.reading = tuple(dict.fromkeys(debug_handles(*call.nodes)))
        args = [self.id(argument) for argument in call.args]
        outputs = [self.id(output) for output in call.outputs]
        args.append(outputs[0] if len(outputs) == 1 else self._add(s.ValueList(outputs)))
        self.graph.chain.append(s.OperatorCall(number, call.name, args))
        if self.reading:
            self.result.handles[number] = self.reading

    def id(self, value: Argument) -> int:
        """Return the id of a value in the blob; the first request adds the value. Equal numbers share an id."""
        # Use type and text of a number as the key, because True, 1 and 1.0 are equal as keys.
        key: Any = value if isinstance(value, (TensorValue, SizeValue)) else (type(value), repr(value))
        if isinstance(value, list):
            return self._add(self._list(value))
        if key not in self.ids:
            self.ids[key] = self._add(self._value(value))
        return self.ids[key]

    def _add(self, value: Any) -> int:
        self.graph.values.append(s.Value(value))
        return len(self.graph.values) - 1

    def _value(self, value: Argument) -> Any:
        if isinstance(value, TensorValue):
            return self._tensor(value)
        if isinstance(value, SizeValue):
            return s.SymInt(0)
        if value is None:
            return s.Null()
        if isinstance(value, bool):
            return s.Bool(value)
        if isinstance(value, int):
            return s.Int(value)
        return s.Double(value) if isinstance(value, float) else s.String(value)

    def _list(self, items: list[Any]) -> Any:
        if any(isinstance(item, (TensorValue, SizeValue)) for item in items):
            return s.ValueList([self.id(item) for item in items])
        if items and all(isinstance(item, bool) for item in items):
            return s.BoolList(items)
        return s.IntList(items) if all(isinstance(item, int) for item in items) else s.DoubleList(items)

    def _tensor(self, value: TensorValue) -> s.VkTensor:
        stored = value.dtype if value.is_exact else held_dtype(value.dtype, self.profile)
        outer = stored if value.constant is not None else _NARROW.get(value.dtype, value.dtype)
        tensor = value.constant if value.weight is None else value.weight.dequantized(stored)
        constant = -1 if tensor is None else self._constant(tensor, stored, value.key)
        return s.VkTensor(
            _TYPES[stored], list(value.shape), constant, value.memory_object, *value.memory, _TYPES[outer]
        )

    def _constant(self, tensor: torch.Tensor, dtype: torch.dtype, key: str) -> int:
        """Add a constant's bytes in `dtype` (finite numbers beyond its range are clamped), and return its index."""
        if tensor.dtype != dtype and dtype.is_floating_point:
            limits = torch.finfo(dtype)
            tensor = tensor.clamp(limits.min, limits.max).where(tensor.isfinite(), tensor)
        array = tensor.to(dtype).contiguous().numpy()
        data = memoryview(array.reshape(-1).view("uint8").data).cast("B") if array.size else memoryview(b"")
        digest = hashlib.sha256(data)
        key = key or digest.hexdigest()
        if key not in self.keys:
            self.keys[key] = len(self.graph.constants)
            self.graph.constants.append(s.Bytes(s.NAMED_OFFSET, len(data), key))
            self.result.named_data[key] = NamedBlob(data, ALIGNMENT, digest.digest(), self.reading)
        return self.keys[key]
