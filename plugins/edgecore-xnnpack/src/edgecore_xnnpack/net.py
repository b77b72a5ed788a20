"""A partition between the edge graph and the blob: operations on values, shapes in ATen's order, layout still open."""

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


class Open(int):
    """A size that the call decides: its number is the greatest."""


class Layout(IntEnum):
    """Order in memory of a value of rank 4 or 5; every other rank is FIRST."""

    FIRST = 0
    LAST = 1


CHANNELS_LAST = (0, 2, 3, 1)
CHANNELS_FIRST = (0, 3, 1, 2)

TO_LAST = {4: CHANNELS_LAST, 5: (0, 2, 3, 4, 1)}
"""By rank: the dimensions in the order of channels last, of those in ATen's order."""

TO_FIRST = {4: CHANNELS_FIRST, 5: (0, 4, 1, 2, 3)}
"""By rank: the dimensions in ATen's order, of those in the order of channels last."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Layouts that an operation demands of its inputs and gives its output; None: either."""

    input: Layout | None
    output: Layout | None


class Tied(Enum):
    """An operation that works in any layout, the same for its inputs and its output."""

    TIED = 0


TIED = Tied.TIED
FIRST = Fixed(Layout.FIRST, Layout.FIRST)
LAST = Fixed(Layout.LAST, Layout.LAST)

Rule = Fixed | Tied


@dataclass(frozen=True, slots=True)
class Quantization:
    """Of an int8 tensor that is computed: real = (integer - zero_point) * scale."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Of an int8 tensor whose rows (of the last dimension) get a scale and a zero point each at run time."""


@dataclass(eq=False, slots=True)
class Value:
    """A float32 tensor, an int8 one with `quantization`, a float16 one (a computed one says so by `is_half`), or an int32 one
    with `is_index`, which only leaves.

    `shape` is in ATen's order; a constant of a `Fixed` operation is as that operation wants it.
    `scales` of a float32 constant: it is a whole number of these, one for each output channel or one for all, or for
    each group of a matrix row's entries, [rows, groups]. Of an integer constant: what its numbers stand for, along
    dimension `channel_dim`. `bits` is the width of such a number.
    """

    shape: Shape
    constant: NDArray[Any] | None = None
    layout: Layout = Layout.FIRST
    quantization: Quantization | Dynamic | None = None
    scales: Array | None = None
    channel_dim: int = 0
    bits: int = 8
    is_half: bool = False
    is_index: bool = False

    @property
    def dims(self) -> Shape:
        """Sizes in memory order."""
        return tuple(self.shape[i] for i in TO_LAST[len(self.shape)]) if self.layout == Layout.LAST else self.shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size of the elements in bytes."""
        if self.constant is None:
            return self.size * (2 if self.is_half else 4 if self.quantization is None else 1)
        return self.size // 2 if self.bits == 4 and self.constant.dtype == np.int8 else self.constant.nbytes

    @property
    def has_layouts(self) -> bool:
        """Whether channels may be first or last: images and volumes."""
        return len(self.shape) in TO_LAST

    @property
    def has_one_order(self) -> bool:
        """Whether both layouts have the same bytes: one channel, or one pixel."""
        return self.shape[1] == 1 or prod(self.shape[2:]) == 1


class RoundRows:
    """Kind of an operation that rounds rows to 8 bits: one product with an int8 weight does so, nothing else need to."""


class Alias:
    """Kind of an operation that changes no byte and no size in memory order: it needs no node."""


@dataclass(eq=False, slots=True)
class Op:
    """One node to be. `kind` is a table of `schema.graph` or `Alias`; `attributes` are its fields but for the ids.

    `second`: another result, the indices of `ArgMaxPooling2d`. `is_half`: the model computes it in half precision. Attributes named in `layout.BY_DIMENSION` are in ATen's order of dimensions.
    """

    kind: type
    inputs: list[Value]
    output: Value
    rule: Rule = TIED
    attributes: dict[str, Any] = field(default_factory=dict)
    clamp: tuple[float, float] | None = None
    handles: tuple[int, ...] = ()
    second: Value | None = None
    is_half: bool = False


@dataclass
class Net:
    """The operations in order, and what crosses the border; the layout of an external value is that of the caller.

    An input that no operation reads is None. `unread`: the `val`s of the last outputs, which nothing outside reads.
    """

    inputs: list[Value | None] = field(default_factory=list)
    outputs: list[tuple[Value, Layout]] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    unread: list[torch.Tensor] = field(default_factory=list)

    def producers(self) -> dict[Value, Op]:
        """The operation that computes each value; a second result has none."""
        return {op.output: op for op in self.ops}

    def uses(self) -> dict[Value, int]:
        """How often each value is read, outputs included."""
        counts: dict[Value, int] = {}
        for op in self.ops:
            for value in op.inputs:
                counts[value] = counts.get(value, 0) + 1
        for value, _ in self.outputs:
            counts[value] = counts.get(value, 0) + 1
        return counts


def comes_from_last(value: Value, producers: dict[Value, Op]) -> bool:
    """Whether the value is computed with channels last."""
    while (op := producers.get(value)) is not None:
        if isinstance(op.rule, Fixed):
            return op.rule.output == Layout.LAST
        value = op.inputs[0]
    return False
