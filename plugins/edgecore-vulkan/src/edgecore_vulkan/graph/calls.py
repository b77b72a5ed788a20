"""Operator calls of a partition, the representation that passes edit. Arguments are objects, ids come later."""

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
    """Storage and layout of a tensor."""

    storage: Storage
    layout: Layout


DEFAULT_MEMORY = Memory(Storage.DEFAULT, Layout.DEFAULT)


@dataclass(eq=False)
class TensorValue:
    """A tensor.

    Attributes:
        shape: The sizes, with symbolic sizes at their maximum.
        dtype: The dtype in the model, such as int64; the delegate may store another one.
        constant: The elements of a constant; the integers if it has a `weight`.
        memory: Chosen by the pass `layout`, except for constants that an operator prepares itself.
        memory_object: Number of the memory that tensors with disjoint lifetimes share; negative if none.
        weight: Integers and scales of a weight that the model dequantizes.
        is_exact: True to keep the dtype despite `force_fp16`.
        key: Key of a constant in the file's named data; empty to derive it from the content.
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
        """Return a new value of the same shape and dtype."""
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
    """A symbolic size, computed when the graph runs."""


Argument = Any
"""An argument of a call: a `TensorValue`, a `SizeValue`, a number, a text, None, or a list of these."""


@dataclass(eq=False)
class Call:
    """A call of an operator.

    Attributes:
        name: The name in the registry, such as `aten.add.Tensor`.
        args: The arguments in the order of the operator's schema.
        outputs: The results; several become a list of values.
        nodes: The nodes of the model that the call implements.
    """

    name: str
    args: list[Argument]
    outputs: list[TensorValue | SizeValue]
    nodes: tuple[Node, ...] = ()

    def inputs(self) -> Iterator[TensorValue]:
        """Yield the tensor arguments, each as often as it occurs."""
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
        """Replace the argument `old` by `new`."""
        for index, argument in enumerate(self.args):
            if argument is old:
                self.args[index] = new
            elif isinstance(argument, list):
                self.args[index] = [new if item is old else item for item in argument]


STATES = frozenset({"edgecore.state.default", "edgecore.store.default", "edgecore.update_rows.default"})
"""Calls whose result is a mutable buffer that the delegate keeps."""


def has_effect(call: Call) -> bool:
    """Return True for a call that writes a buffer, and therefore must stay even if its result is not read."""
    return call.name in STATES and call.name != "edgecore.state.default"


@dataclass(eq=False)
class CallGraph:
    """The calls of a partition in an executable order, its inputs and outputs."""

    inputs: list[TensorValue | SizeValue] = field(default_factory=list)
    outputs: list[TensorValue] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def producers(self) -> dict[TensorValue | SizeValue, Call]:
        """Map each value to the call that computes it."""
        return {output: call for call in self.calls for output in call.outputs}

    def uses(self) -> Counter[TensorValue]:
        """Count how many arguments and outputs read each tensor."""
        counts: Counter[TensorValue] = Counter(self.outputs)
        for call in self.calls:
            counts.update(call.inputs())
        return counts

    def replace(self, old: TensorValue, new: TensorValue) -> None:
        """Replace `old` by `new` in all calls and outputs."""
        self.outputs = [new if output is old else output for output in self.outputs]
        for call in self.calls:
            call.replace(old, new)

    def remove(self, calls: Sequence[Call]) -> None:
        """Remove calls."""
        dropped = set(map(id, calls))
        self.calls = [call for call in self.calls if id(call) not in dropped]
