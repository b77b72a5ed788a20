"""Check that the `.pte` has a blob's constants, and that executorch 1.5's Vulkan delegate supports its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from edgecore_vulkan.graph.calls import Call, Memory, SizeValue, TensorValue
from edgecore_vulkan.graph.profile import Profile
from edgecore_vulkan.graph.registry import entry_of, is_prepared, possible_memories, problem
from edgecore_vulkan.schema import graph as s

_DTYPES = {
    s.DataType.BOOL: torch.bool, s.DataType.UINT8: torch.uint8, s.DataType.INT8: torch.int8,
    s.DataType.INT32: torch.int32, s.DataType.FLOAT16: torch.float16, s.DataType.FLOAT32: torch.float32,
    s.DataType.FLOAT64: torch.float64, s.DataType.INT64: torch.int64,
}  # fmt: skip
_LAYOUTS = frozenset(s.Layout)


def incompatibilities(graph: s.Graph, named_data: Mapping[str, Any], *, for_executorch: bool) -> list[str]:
    """List errors of a blob: missing constants, unknown operators and, for executorch 1.5, unsupported memories."""
    errors = [
        f"constant {index} is not in the file: no named data {constant.named_key}"
        for index, constant in enumerate(graph.constants)
        if constant.named_key and constant.named_key not in named_data
    ]
    # Do not check texture limits, which depend on the device: set limits that no tensor exceeds.
    profile = Profile(is_stock=for_executorch, texture_limits=(2**31, 2**31, 2**31), buffer_limit=2**62)
    values = [_value(entry.value) for entry in graph.values]
    for call in graph.chain:
        if entry_of(call.name, profile) is None:
            target = "executorch 1.5" if for_executorch else "edgecore's delegate"
            errors.append(f"call {call.node_id}: {target} has no operator {call.name}")
        elif for_executorch:
            errors += [f"call {call.node_id}: {reason}" for reason in _memory_errors(_call(call, values), profile)]
    return errors


def _value(value: Any) -> Any:
    match value:
        case s.VkTensor():
            constant = torch.empty(0) if value.constant_id >= 0 else None
            memory = Memory(value.storage_type, value.memory_layout)
            return TensorValue(tuple(value.dims), _DTYPES[value.datatype], constant, memory)
        case s.SymInt():
            return SizeValue()
        case s.ValueList() | s.IntList():
            return value
        case s.Int():
            return value.int_val
    return None


def _call(call: s.OperatorCall, values: list[Any]) -> Call:
    arguments = [_resolved(values[number], values) for number in call.args]
    last = arguments.pop()
    return Call(call.name, arguments, last if isinstance(last, list) else [last])


def _resolved(value: Any, values: list[Any]) -> Any:
    if isinstance(value, s.ValueList):
        return [values[number] for number in value.items]
    return value.items if isinstance(value, s.IntList) else value


def _memory_errors(call: Call, profile: Profile) -> list[str]:
    reason = problem(call, profile, _LAYOUTS)
    if reason:
        return [reason]
    errors = []
    for values, memories in possible_memories(call, profile, _LAYOUTS):
        tensors = [value for value in values if not is_prepared(call, value, profile)]
        for memory in dict.fromkeys(value.memory for value in tensors):
            if memory not in memories:
                errors.append(f"{call.name} does not support {memory.storage.name} {memory.layout.name}")
        if len({value.memory for value in tensors}) > 1:
            errors.append(f"{call.name} needs its tensors in one memory")
    return errors
