"""Let tensors with disjoint lifetimes share memory, and measure the memory that a delegate needs."""

from __future__ import annotations

from edgecore_vulkan.graph.calls import STATES, CallGraph, Memory, TensorValue

_APART = STATES | {"et_vk.prepack.default"}
"""Calls whose results do not share memory with other tensors."""


def last_uses(graph: CallGraph) -> dict[TensorValue, int]:
    """Map each tensor to the index of the last call that reads it; outputs stay live until the end."""
    last: dict[TensorValue, int] = {}
    for index, call in enumerate(graph.calls):
        for value in (*call.inputs(), *call.outputs):
            if isinstance(value, TensorValue):
                last[value] = index
    last.update(dict.fromkeys(graph.outputs, len(graph.calls)))
    return last


def assign_memory_objects(graph: CallGraph) -> None:
    """Give each tensor a memory number: the free memory of its dtype and layout with the closest size, or a new one.

    Constants, symbolic sizes, and results of calls in `_APART` get no number. All results of a call that returns a list
    occupy memory from that call on.
    """
    last = last_uses(graph)
    free: list[tuple[tuple[object, bool, Memory], int, int]] = []  # (kind, elements, number)
    ends: dict[int, list[TensorValue]] = {}
    count = 0

    def place(value: TensorValue) -> None:
        nonlocal count
        kind = (value.dtype, value.is_exact, value.memory)
        candidates = [entry for entry in free if entry[0] == kind]
        if candidates:
            best = min(candidates, key=lambda entry: (abs(entry[1] - value.elements), entry[2]))
            free.remove(best)
            value.memory_object = best[2]
        else:
            value.memory_object, count = count, count + 1
        sizes[value.memory_object] = max(sizes.get(value.memory_object, 0), value.elements)
        ends.setdefault(last.get(value, -1), []).append(value)

    sizes: dict[int, int] = {}

    def release(index: int) -> None:
        for value in ends.get(index, []):
            free.append(((value.dtype, value.is_exact, value.memory), sizes[value.memory_object], value.memory_object))

    for value in graph.inputs:
        if isinstance(value, TensorValue):
            place(value)
    for index, call in enumerate(graph.calls):
        if call.name not in _APART:
            for output in call.outputs:
                if isinstance(output, TensorValue):
                    place(output)
        release(index)


def peak_bytes(graph: CallGraph, bytes_of: dict[TensorValue, int]) -> int:
    """Return the maximum total size in bytes of tensors, except constants, that are live at the same time."""
    last = last_uses(graph)
    prepared = {output for call in graph.calls if call.name in _APART for output in call.outputs}
    live = peak = sum(bytes_of[value] for value in graph.inputs if isinstance(value, TensorValue))
    for index, call in enumerate(graph.calls):
        results = [value for value in call.outputs if isinstance(value, TensorValue) and value not in prepared]
        live += sum(bytes_of[value] for value in results)
        peak = max(peak, live)
        for value in {*call.inputs(), *results}:
            if last[value] == index and value.constant is None and value not in prepared:
                live -= bytes_of[value]
    return peak
