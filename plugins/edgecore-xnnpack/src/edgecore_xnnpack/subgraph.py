"""The XNNPACK subgraph of a partition, between the edge graph and the blob.

Shapes are in ATen's order of dimensions; `passes/layout.py` chooses the order in memory last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float32]
Shape = tuple[int, ...]


class SymbolicSize(int):
    """A size that varies between calls; the number is its upper bound."""


class Layout(IntEnum):
    """Order of the dimensions in memory: channels first, as in ATen, or last. Only ranks 4 and 5 can be LAST."""

    FIRST = 0
    LAST = 1


CHANNELS_LAST = (0, 2, 3, 1)
CHANNELS_FIRST = (0, 3, 1, 2)

TO_LAST = {4: CHANNELS_LAST, 5: (0, 2, 3, 4, 1)}
"""By rank, the permutation from ATen's order of dimensions to channels last."""

TO_FIRST = {4: CHANNELS_FIRST, 5: (0, 4, 1, 2, 3)}
"""By rank, the permutation from channels last to ATen's order of dimensions."""


@dataclass(frozen=True, slots=True)
class FixedLayouts:
    """Constraint of an operation that demands a layout of its inputs and gives its output one; None: either."""

    input: Layout | None
    output: Layout | None


class SameLayout(Enum):
    """Constraint of an operation that works in any layout, if inputs and output have the same."""

    SAME_LAYOUT = 0


SAME_LAYOUT = SameLayout.SAME_LAYOUT
FIRST = FixedLayouts(Layout.FIRST, Layout.FIRST)
LAST = FixedLayouts(Layout.LAST, Layout.LAST)

LayoutConstraint = FixedLayouts | SameLayout


@dataclass(frozen=True, slots=True)
class Quantization:
    """Parameters of an int8 tensor that is computed: real = (integer - zero_point) * scale."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class DynamicQuantization:
    """Marks an int8 tensor that is quantized per token: each row gets its parameters at run time."""


@dataclass(eq=False, slots=True)
class SubgraphValue:
    """A tensor of the subgraph: an input, a constant, or the result of an operation.

    Attributes:
        shape: In ATen's order; a constant of an operation with `FixedLayouts` is stored as that operation wants it.
        constant: The elements, if they are known: float32, float16, or the integers of a quantized weight or bias.
        layout: Order of the dimensions in memory.
        quantization: Parameters of an int8 tensor that is computed; None: floating point.
        scales: Of a float32 constant that was dequantized, its scales: one, one for each output channel, or one for
            each group of a matrix row's entries, [rows, groups]. Each element is an integer multiple of its scale, so
            it can become that integer again without loss. Of an integer constant, the scales that dequantize it.
        channel_dim: The dimension that the scales belong to.
        bits: Width of the integers, 8 or 4.
        is_fp16: The tensor is computed in fp16; a constant tells by its dtype.
        is_index: An int32 tensor of indices, which can only be an output of the delegate.
    """

    shape: Shape
    constant: NDArray[Any] | None = None
    layout: Layout = Layout.FIRST
    quantization: Quantization | DynamicQuantization | None = None
    scales: Array | None = None
    channel_dim: int = 0
    bits: int = 8
    is_fp16: bool = False
    is_index: bool = False

    @property
    def dims(self) -> Shape:
        """The sizes in memory order."""
        return tuple(self.shape[i] for i in TO_LAST[len(self.shape)]) if self.layout == Layout.LAST else self.shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size of the elements in bytes."""
        if self.constant is None:
            return self.size * (2 if self.is_fp16 else 4 if self.quantization is None else 1)
        return self.size // 2 if self.bits == 4 and self.constant.dtype == np.int8 else self.constant.nbytes

    @property
    def has_layouts(self) -> bool:
        """True for images and volumes: their channels may be first or last."""
        return len(self.shape) in TO_LAST

    @property
    def has_one_order(self) -> bool:
        """True if both layouts have the same bytes: there is a single channel, or a single pixel."""
        return self.shape[1] == 1 or prod(self.shape[2:]) == 1


class QuantizePerToken:
    """Kind of a placeholder: dynamic per-token quantization, of use to linear layers of integer weights only."""


class Alias:
    """Kind of an operation that changes neither bytes nor sizes in memory order: the blob needs no node for it."""


@dataclass(eq=False, slots=True)
class SubgraphNode:
    """An operation that becomes a node of the blob.

    Attributes:
        kind: The table of `schema.graph` for its node, `Alias` or `QuantizePerToken`.
        rule: The layouts that it works in.
        attributes: The table's fields, without the ids of values. Those named in `layout.BY_DIMENSION` are in ATen's
            order of dimensions until layouts are assigned.
        clamp: Lower and upper limit of the output.
        handles: Debug handles of the nodes that it came from.
        second: A second output: the indices of `ArgMaxPooling2d`.
        is_fp16: The model computes it in fp16.
    """

    kind: type
    inputs: list[SubgraphValue]
    output: SubgraphValue
    rule: LayoutConstraint = SAME_LAYOUT
    attributes: dict[str, Any] = field(default_factory=dict)
    clamp: tuple[float, float] | None = None
    handles: tuple[int, ...] = ()
    second: SubgraphValue | None = None
    is_fp16: bool = False


@dataclass
class Subgraph:
    """A partition as XNNPACK operations.

    Attributes:
        inputs: In the order of the delegate's arguments; None: a number, which no operation reads.
        outputs: Each with the layout that the caller expects.
        nodes: In an order in which they can run.
        unread: `val`s of the last outputs, which nothing outside the delegate reads.
    """

    inputs: list[SubgraphValue | None] = field(default_factory=list)
    outputs: list[tuple[SubgraphValue, Layout]] = field(default_factory=list)
    nodes: list[SubgraphNode] = field(default_factory=list)
    unread: list[torch.Tensor] = field(default_factory=list)

    def producers(self) -> dict[SubgraphValue, SubgraphNode]:
        """Map each value to the operation whose first output it is."""
        return {op.output: op for op in self.nodes}

    def uses(self) -> dict[SubgraphValue, int]:
        """Count how often each value is read; being an output counts as well."""
        counts: dict[SubgraphValue, int] = {}
        for op in self.nodes:
            for value in op.inputs:
                counts[value] = counts.get(value, 0) + 1
        for value, _ in self.outputs:
            counts[value] = counts.get(value, 0) + 1
        return counts


def comes_from_last(value: SubgraphValue, producers: dict[SubgraphValue, SubgraphNode]) -> bool:
    """Return True if the last operation before a value that has a fixed layout computes channels last."""
    while (op := producers.get(value)) is not None:
        if isinstance(op.rule, FixedLayouts):
            return op.rule.output == Layout.LAST
        value = op.inputs[0]
    return False
