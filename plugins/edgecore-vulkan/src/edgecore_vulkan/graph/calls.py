"""Operator calls of a partition between lowering and writing: values with identity instead of ids, which passes edit."""

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
    """How a tensor lies in memory."""

    storage: Storage
    layout: Layout


DEFAULT_MEMORY = Memory(Storage.DEFAULT, Layout.DEFAULT)


@dataclass(eq=False)
class TensorValue:
    """A tensor.

    Attributes:
        shape: Its sizes, symbolic ones at their maximum.
        dtype: The dtype in the model, such as int64; the delegate may hold another.
        constant: The content of a constant; the integers if it has a `weight`.
        memory: Chosen by the pass `layout`; constants that an operator prepares itself keep the default.
        memory_object: Number of the memory that the tensor shares with others; negative if none.
        weight: The integers and scales of a constant that the model dequantizes.
        is_exact: True if the tensor keeps its dtype with `force_fp16`.
        key: The key of a constant among the named data of the file; empty for one that follows from the content.
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
    """A symbolic size, computed while the graph runs."""


Argument = Any
"""An argument of a call: a `TensorValue`, a `SizeValue`, a number, a text, None, or a list of these."""


@dataclass(eq=False)
class Call:
    """One call of an operator.

    Attributes:
        name: The name in the registry, such as `aten.add.Tensor`.
        args: The arguments in the order of the operator's schema.
        outputs: The results; more than one become a list of values.
        nodes: The nodes of the model that it computes.
    """

    name: str
    args: list[Argument]
    outputs: list[TensorValue | SizeValue]
    nodes: tuple[Node, ...] = ()

    def inputs(self) -> Iterator[TensorValue]:
        """Yield the tensors among the arguments, each as often as it occurs."""
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
        """Read `new` instead of `old`."""
        for index, argument in enumerate(self.args):
            if argument is old:
                self.args[index] = new
            elif isinstance(argument, list):
                self.args[index] = [new if item is old else item for item in argument]


STATES = frozenset({"edgecore.state.default", "edgecore.store.default", "edgecore.update_rows.default"})
"""Calls whose result is the memory of a mutable buffer that the delegate keeps."""


def has_effect(call: Call) -> bool:
    """Return True for a call that changes a buffer, and so must stay even if nothing reads its result."""
    return call.name in STATES and call.name != "edgecore.state.default"


@dataclass(eq=False)
class CallGraph:
    """The calls of a partition, in an order in which they can run, its inputs and its outputs."""

    inputs: list[TensorValue | SizeValue] = field(default_factory=list)
    outputs: list[TensorValue] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def producers(self) -> dict[TensorValue | SizeValue, Call]:
        """Map each value to the call that computes it."""
        return {output: call for call in self.calls for output in call.outputs}

    def uses(self) -> Counter[TensorValue]:
        """Count for each tensor the arguments and outputs that read it."""
        counts: Counter[TensorValue] = Counter(self.outputs)
        for call in self.calls:
            counts.update(call.inputs())
        return counts

    def replace(self, old: TensorValue, new: TensorValue) -> None:
        """Read `new` everywhere instead of `old`."""
        self.outputs = [new if output is old else output for output in self.outputs]
        for call in self.calls:
            call.replace(old, new)

    def remove(self, calls: Sequence[Call]) -> None:
        """Remove calls."""
        dropped = set(map(id, calls))
        self.calls = [call for call in self.calls if id(call) not in dropped]
