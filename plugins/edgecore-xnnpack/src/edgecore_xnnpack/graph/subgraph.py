"""The XNNPACK subgraph of a partition: the intermediate representation between the edge graph and the blob.

Shapes are in ATen's order of dimensions. The last pass, `passes/layout.py`, chooses the order in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgecore_xnnpack.schema import graph as g

Array = NDArray[np.float32]
Shape = tuple[int, ...]


class SymbolicSize(int):
    """A tensor size that varies between calls. Its value as an integer is its upper bound."""


class Layout(IntEnum):
    """Order of the dimensions in memory: channels FIRST (NCHW, as in ATen) or LAST (NHWC; only ranks 4 and 5)."""

    FIRST = 0
    LAST = 1


CHANNELS_LAST = (0, 2, 3, 1)
CHANNELS_FIRST = (0, 3, 1, 2)

TO_LAST = {4: CHANNELS_LAST, 5: (0, 2, 3, 4, 1)}
"""Permutation from ATen's order of dimensions to channels last, by rank."""

TO_FIRST = {4: CHANNELS_FIRST, 5: (0, 4, 1, 2, 3)}
"""Permutation from channels last to ATen's order of dimensions, by rank."""


@dataclass(frozen=True, slots=True)
class FixedLayouts:
    """Layout constraint of an operation that prescribes a layout for all inputs, and one for the output.

    None in place of a layout allows both layouts.
    """

    input: Layout | None
    output: Layout | None


class SameLayout(Enum):
    """Layout constraint of an operation that supports both layouts if its inputs and output have the same one."""

    SAME_LAYOUT = 0


SAME_LAYOUT = SameLayout.SAME_LAYOUT
FIRST = FixedLayouts(Layout.FIRST, Layout.FIRST)
LAST = FixedLayouts(Layout.LAST, Layout.LAST)

LayoutConstraint = FixedLayouts | SameLayout


@dataclass(frozen=True, slots=True)
class Quantization:
    """Parameters of a quantized int8 tensor: real = (integer - zero_point) * scale."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class DynamicQuantization:
    """Marks a tensor that XNNPACK quantizes to int8 at run time, with a scale and zero point per token or image.

    Attributes:
        dims: Number of trailing dimensions that share a scale and zero point: 1 for a token (row), 3 for an image.
    """

    dims: int = 1


@dataclass(eq=False, slots=True)
class SubgraphValue:
    """A tensor of the subgraph: an input, a constant, or the result of an operation.

    Attributes:
        shape: In ATen's order of dimensions. A filter of a convolution is stored in XNNPACK's order instead.
        constant: The elements of a constant: float32, float16, or the integers of a quantized weight or bias. None for
            a value that is computed at run time.
        layout: Order of the dimensions in memory.
        quantization: Parameters of an int8 tensor that is computed at run time; None for floating point.
        scales: The scales of a constant: one in total, one per output channel, or [rows, groups], one per group of
            columns in a matrix row. An integer constant is dequantized by them. A float32 constant with scales has been
            dequantized already: its elements are integer multiples of their scale, so the integers can be recovered
            exactly.
        channel_dim: The dimension of the output channels, if `scales` has one per channel.
        bits: Number of bits of the integers, 8 or 4.
        is_fp16: True if the tensor is computed in fp16; a constant has this information in its dtype.
        is_index: True for int32 indices. No XNNPACK operation reads indices, so this value can only be a delegate's
            output.
        is_position: True for an int64 input that holds the positions for a `CacheUpdate`.
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
    is_position: bool = False

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
        """Total size of the elements in bytes."""
        if self.constant is None:
            return self.size * (2 if self.is_fp16 else 4 if self.quantization is None else 1)
        return self.size // 2 if self.bits == 4 and self.constant.dtype == np.int8 else self.constant.nbytes

    @property
    def has_layouts(self) -> bool:
        """True for ranks 4 and 5, images and volumes, whose channels may be first or last."""
        return len(self.shape) in TO_LAST

    @property
    def has_one_order(self) -> bool:
        """True if both layouts have the same bytes, because there is a single channel or a single pixel."""
        return self.shape[1] == 1 or prod(self.shape[2:]) == 1


class QuantizePerToken:
    """The kind of an operation that marks a tensor for dynamic quantization. `passes/quantize.py` replaces it.

    In XNNPACK, only linear layers and convolutions with integer weights can read a dynamically quantized tensor.
    """


class Alias:
    """Kind of an operation that only renames dimensions: input and output share bytes and sizes in memory.

    The blob has one value for both, and no node. The bytes are copied only into an output of the delegate.
    """


@dataclass(eq=False, slots=True)
class SubgraphNode:
    """An operation that becomes a node of the blob.

    Attributes:
        kind: The node's class in `schema.graph`, or `Alias`, or `QuantizePerToken`.
        rule: Layout constraint of the operation.
        attributes: The fields of the node, except value ids. Fields with one number per dimension
            (`layout.BY_DIMENSION`) are in ATen's order of dimensions until `passes/layout.py` assigns layouts.
        clamp: Lower and upper limit of the output.
        handles: Debug handles of the fx nodes that became this operation.
        second: The second output of `ArgMaxPooling2d`, the indices.
        is_fp16: True if the model itself computes this operation in fp16.
        needs_fp32: True if the operation relies on the range or precision of fp32; `passes/fp16.py` leaves it in fp32.
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
    needs_fp32: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """A mutable buffer that the delegate keeps: qualified name, value, and initial content."""

    name: str
    value: SubgraphValue
    initial: torch.Tensor


@dataclass
class Subgraph:
    """A partition as XNNPACK operations.

    Attributes:
        inputs: In the order of the delegate's arguments; None for a number, which no operation reads.
        outputs: Each with the layout that the caller expects.
        nodes: In execution order.
        unread: Shapes and dtypes of additional outputs at the end of `outputs`. They are not needed, but XNNPACK would
            crash if they were internal values (`Lowering.leave_unread`).
        states: The mutable buffers that the delegate keeps.
    """

    inputs: list[SubgraphValue | None] = field(default_factory=list)
    outputs: list[tuple[SubgraphValue, Layout]] = field(default_factory=list)
    nodes: list[SubgraphNode] = field(default_factory=list)
    unread: list[torch.Tensor] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    @property
    def in_states(self) -> set[SubgraphValue]:
        """The values that live in states: the states themselves, and their updated contents."""
        return {state.value for state in self.states} | {op.output for op in self.nodes if op.kind is g.CacheUpdate}

    def producers(self) -> dict[SubgraphValue, SubgraphNode]:
        """Map each value to the operation that computes it; omits second outputs."""
        return {op.output: op for op in self.nodes}

    def uses(self) -> dict[SubgraphValue, int]:
        """Count the uses of each value: reads by operations, and outputs of the delegate."""
        counts: dict[SubgraphValue, int] = {}
        for op in self.nodes:
            for value in op.inputs:
                counts[value] = counts.get(value, 0) + 1
        for value, _ in self.outputs:
            counts[value] = counts.get(value, 0) + 1
        return counts


def comes_from_last(value: SubgraphValue, producers: dict[SubgraphValue, SubgraphNode]) -> bool:
    """Return True if `value` is likely to have channels last once layouts are chosen.

    The function follows the first input of each operation from `value` back to an operation with fixed layouts, and
    returns True if that operation writes channels last.
    """
    while (op := producers.get(value)) is not None:
        if isinstance(op.rule, FixedLayouts):
            return op.rule.output == Layout.LAST
        value = op.inputs[0]
    return False
