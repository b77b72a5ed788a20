"""Choose storage and layout of each tensor, and insert copies for calls that need a different memory.

Convolutions, pooling and resizing need packed channels (NHWC in edgecore's delegate), matrix products and norms packed
rows. Other operators use the memory for which the fewest elements are copied, usually the memory of their inputs. If no
input has a memory yet, they use the memory that readers of the results need.
"""

from __future__ import annotations

from edgecore_vulkan.graph.calls import DEFAULT_MEMORY, Call, CallGraph, Memory, SizeValue, TensorValue
from edgecore_vulkan.graph.profile import Profile
from edgecore_vulkan.graph.registry import W, is_prepared, possible_memories
from edgecore_vulkan.schema.graph import Layout, Storage

_ROW_MAJOR = frozenset({
    "aten.view_copy.default", "aten.squeeze_copy.dims", "aten.unsqueeze_copy.default", "aten.expand_copy.default",
    "aten.repeat.default", "aten.gather.default", "aten.embedding.default", "aten._softmax.default",
    "aten._log_softmax.default", "aten.native_layer_norm.default", "aten.argmax.default", "aten.argmin.default",
    "aten.select_copy.int", "aten.arange.start_step", "aten.full.default",
})  # fmt: skip
"""Operators that are fastest on packed rows, or whose rank changes, although the registry allows other layouts."""

_CLONE, _PREPACK = "aten.clone.default", "et_vk.prepack.default"
_MAX_LOOKAHEAD = 16


def assign_memories(graph: CallGraph, profile: Profile) -> None:
    """Choose storage and layout of the tensors of `graph`; insert copies, and `et_vk.prepack` calls for constants."""
    _Assignment(graph, profile).run()


class _Assignment:
    def __init__(self, graph: CallGraph, profile: Profile) -> None:
        self.graph = graph
        self.profile = profile
        self.readers: dict[TensorValue, list[Call]] = {}
        for call in graph.calls:
            for value in call.inputs():
                self.readers.setdefault(value, []).append(call)
        self.copies: dict[tuple[TensorValue, Memory], TensorValue] = {}
        self.calls: list[Call] = []

    def run(self) -> None:
        for call in self.graph.calls:
            self._place(call)
        for value in self.graph.inputs:
            if isinstance(value, TensorValue) and value.memory == DEFAULT_MEMORY:
                value.memory = self._fallback(value)
        self.graph.calls = self.calls

    def _place(self, call: Call) -> None:
        """Choose the memories of a call's tensors; append the copies that the call needs, then the call."""
        if all(isinstance(output, SizeValue) for output in call.outputs):
            self.calls.append(call)
            return
        for values, memories in possible_memories(call, self.profile):
            if not values:
                continue
            inputs = [value for value in values if value not in call.outputs]
            results = [value for value in values if value in call.outputs]
            memory = self._best(call, inputs, results, memories)
            for value in dict.fromkeys(inputs):
                self._read(call, value, memory)
            for value in results:
                value.memory = memory
        self.calls.append(call)

    def _best(
        self, call: Call, inputs: list[TensorValue], results: list[TensorValue], memories: frozenset[Memory]
    ) -> Memory:
        needed = self._needed_layout(results) if call.name not in _ROW_MAJOR else None

        def cost(memory: Memory) -> tuple[float, ...]:
            copied = sum(
                value.elements
                for value in dict.fromkeys(inputs)
                if value.constant is None
                and value.memory not in (DEFAULT_MEMORY, memory)
                and (value, memory) not in self.copies
            )
            is_row_major = call.name in _ROW_MAJOR and memory.layout != W
            is_other = needed is not None and memory.layout != needed
            return (is_row_major, copied, is_other, *self._rank(memory))

        return min(sorted(memories), key=cost)

    def _rank(self, memory: Memory) -> tuple[int, int]:
        """Return a sort key for memories with equal copying costs: the options' storage and layout come first."""
        layout = W if self.profile.layout == Layout.DEFAULT else self.profile.layout
        storage = Storage.TEXTURE_3D if self.profile.storage == Storage.DEFAULT else self.profile.storage
        return int(memory.storage != storage), int(memory.layout != layout)

    def _needed_layout(self, results: list[TensorValue]) -> Layout | None:
        """Return the layout that the next reader of `results` needs; look past readers that support several layouts."""
        seen, queue = 0, list(results)
        while queue and seen < _MAX_LOOKAHEAD:
            value = queue.pop(0)
            for reader in self.readers.get(value, []):
                seen += 1
                groups = possible_memories(reader, self.profile)
                for values, memories in groups:
                    layouts = {W} if reader.name in _ROW_MAJOR else {memory.layout for memory in memories}
                    if value in values and len(layouts) == 1:
                        return layouts.pop()
                queue += [output for output in reader.outputs if isinstance(output, TensorValue)]
        return None

    def _read(self, call: Call, value: TensorValue, memory: Memory) -> None:
        """Let `call` read the tensor `value` in `memory`; insert a copy if the tensor is in another memory."""
        if value.constant is not None and not is_prepared(call, value, self.profile):
            call.replace(value, self._copy(value, memory, _PREPACK))
        elif value.constant is None and value.memory == DEFAULT_MEMORY:
            # An input of the delegate takes the memory that its first reader needs.
            value.memory = memory
        elif value.constant is None and value.memory != memory:
            call.replace(value, self._copy(value, memory, _CLONE))

    def _copy(self, value: TensorValue, memory: Memory, name: str) -> TensorValue:
        key = (value, memory)
        if key not in self.copies:
            copy = value.like()
            copy.memory = memory
            args = [value] if name == _PREPACK else [value, None]  # clone has the arguments (input, memory format)
            self.calls.append(Call(name, args, [copy]))
            self.copies[key] = copy
        return self.copies[key]

    def _fallback(self, value: TensorValue) -> Memory:
        """Return the memory for an input of the delegate that no call reads."""
        (_, memories), *_ = possible_memories(Call(_CLONE, [value, None], [value.like()]), self.profile)
        return min(sorted(memories), key=self._rank)
