"""Define the operator calls of a partition as objects that passes edit; tensors get ids only in the blob."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from edgecore_vulkan.graph.integer_weights import IntegerWeight
from edgecore_vulkan.schema.graph import Layout, Storage


class Memory(NamedTuple):
    """How a tensor is stored on the device: as a buffer or a texture, and with which layout (order of elements)."""

    storage: Storage
    layout: Layout


DEFAULT_MEMORY = Memory(Storage.DEFAULT, Layout.DEFAULT)


@dataclass(eq=False)
class TensorValue:
    """A tensor that operator calls read or write.

    Attributes:
        shape: The sizes, with symbolic sizes at their maximum.
        dtype: The dtype in the model, such as int64; the delegate may store the tensor in another dtype.
        constant: The elements of a constant (the integers of `weight` if it has one); None for other tensors.
        memory: Storage and layout, which the pass `layout` chooses, unless an operator prepares the constant.
        memory_object: Number of the tensor's memory; tensors with disjoint lifetimes may have the same number. Negative
            if the tensor has memory of its own.
        weight: Integers and scales of a weight that the model dequantizes; None for other tensors.
        is_exact: True to store float32 as float32 even with `force_fp16`.
        key: Key of a constant in the `.pte`'s named data; empty to derive the key from the content.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    constant: torch.Tensor | None = None
    memory: Memory = DEFAULT_MEMORY
    memory_object: int = -1
    weight: IntegerWeight | None = None
    is_exact: bool = False
    key: str = ""

    def like(self) -> TensorValue:
        """Return a new tensor of the same shape and dtype."""
        return TensorValue(self.shape, self.dtype)

    @property
    def elements(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(eq=False)
class SizeValue:
    """A symbolic size, whose number is computed when the graph runs."""


Argument = Any
"""An argument of a call: a `TensorValue`, a `SizeValue`, a number, a text, None, or a list of these."""


@dataclass(eq=False)
class Call:
    """A call of an operator of the delegate.

    Attributes:
        name: The name in the registry, such as `aten.add.Tensor`.
        args: The arguments in the order of the operator's schema.
        outputs: The results; in the blob, several results become a list of values.
        nodes: The nodes of the model that the call computes.
    """

    name: str
    args: list[Argument]
    outputs: list[TensorValue | SizeValue]
    nodes: tuple[Node, ...] = ()

    def inputs(self) -> Iterator[TensorValue]:
        """Yield the tensors among the arguments; a tensor that occurs twice is yielded twice."""
        for argument in self.args:
            for item in argument if isinstance(argument, list) else [argument]:
                if isinstance(item, TensorValue):
                    yield item

    @property
    def output(self) -> TensorValue:
        """The first result."""
        result = self.outputs[0]
        assert isinstance(result, TensorValue)
        return result

    def replace(self, old: TensorValue, new: TensorValue) -> None:
        """Replace the tensor `old` by `new` in the arguments, also in lists."""
        for index, argument in enumerate(self.args):
            if argument is old:
                self.args[index] = new
            elif isinstance(argument, list):
                self.args[index] = [new if item is old else item for item in argument]


STATES = frozenset({"edgecore.state.default", "edgecore.store.default", "edgecore.update_rows.default"})
"""Calls whose result is a mutable buffer that the delegate keeps."""


def has_effect(call: Call) -> bool:
    """Return True for a call that writes a buffer. The call must stay even if no call reads its result."""
    return call.name in STATES and call.name != "edgecore.state.default"


@dataclass(eq=False)
class CallGraph:
    """The operator calls of a partition in an executable order, with the partition's inputs and outputs."""

    inputs: list[TensorValue | SizeValue] = field(default_factory=list)
    outputs: list[TensorValue] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def producers(self) -> dict[TensorValue | SizeValue, Call]:
        """Map each value to the call that computes it."""
        return {output: call for call in self.calls for output in call.outputs}

    def uses(self) -> Counter[TensorValue]:
        """Count, for each tensor, how many arguments of calls and outputs of the partition read it."""
        counts: Counter[TensorValue] = Counter(self.outputs)
        for call in self.calls:
            counts.update(call.inputs())
        return counts

    def replace(self, old: TensorValue, new: TensorValue) -> None:
        """Replace the tensor `old` by `new` in all calls and in the outputs."""
        self.outputs = [new if output is old else output for output in self.outputs]
        for call in self.calls:
            call.replace(old, new)

    def remove(self, calls: Sequence[Call]) -> None:
        """Remove calls."""
        dropped = set(map(id, calls))
        self.calls = [call for call in self.calls if id(call) not in dropped]
