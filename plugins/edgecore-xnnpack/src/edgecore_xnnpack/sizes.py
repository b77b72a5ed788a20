"""Symbolic sizes: a graph is lowered for several sizes, and XNNPACK gets what all of them have in common.

Sizes above the bounds serve as well as those within: the bounds say how much memory is needed, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore_xnnpack.net import Net, Op, Open, Shape, Value
from edgecore_xnnpack.schema import graph as g

_STEPS = (0, 1, 2, 67, 1021)
"""What is added to the greatest sizes: strides of 2 and 3 show in small steps, sizes divided many times in great ones."""


class Sizes:
    """Numbers for the symbols of a program, which are sympy's."""

    def __init__(self, numbers: dict[Any, int]) -> None:
        self._numbers = numbers
        self._known: dict[Any, int] = {}

    def number(self, size: Any) -> int:
        """A size as a number."""
        if isinstance(size, int):
            return size
        expression = size.node.expr
        if expression not in self._known:
            self._known[expression] = int(expression.subs(self._numbers))
        return self._known[expression]

    def resolve(self, value: Any) -> Any:
        """An argument of a node, with the sizes in it as numbers."""
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.resolve, value))
        if isinstance(value, Node) and isinstance(value.meta.get("val"), torch.SymInt):
            return self.number(value.meta["val"])
        return value

    def of(self, tensor: torch.Tensor) -> Shape:
        """The shape of a `val`."""
        return tuple(self.number(size) for size in tensor.shape)


class Symbols:
    """The symbols in the shapes of a program: the numbers to lower it with, and which have no usable bounds.

    `choices` starts with the greatest sizes; it has one entry if the program is static.
    """

    def __init__(self, program: ExportedProgram) -> None:
        found: dict[Any, Any] = {}
        for node in program.graph.nodes:
            val = node.meta.get("val")
            for tensor in val if isinstance(val, (tuple, list)) else (val,):
                for size in symbolic(tensor):
                    found.update(dict.fromkeys(size.node.expr.free_symbols, size.node.shape_env))
        self.problems: dict[Any, str] = {}
        numbers: dict[Any, int] = {}
        for symbol in sorted(found, key=str):
            bounds = program.range_constraints.get(symbol) or found[symbol].var_to_range.get(symbol)
            if bounds is None or not getattr(bounds.upper, "is_Integer", False):
                self.problems[symbol] = f"size {symbol} has no upper bound"
            elif bounds.lower <= 0 and str(symbol).startswith("u"):
                self.problems[symbol] = f"size {symbol} depends on data and may be 0"
            numbers[symbol] = int(bounds.upper) if symbol not in self.problems else 2
        steps = _STEPS if numbers else (0,)
        self.choices = [
            Sizes({symbol: top + step * (index + 1) for index, (symbol, top) in enumerate(numbers.items())})
            for step in steps
        ]

    def problem(self, tensor: torch.Tensor) -> str | None:
        """Why the sizes of a `val` cannot be taken."""
        symbols = [symbol for size in symbolic(tensor) for symbol in size.node.expr.free_symbols]
        return next((self.problems[symbol] for symbol in symbols if symbol in self.problems), None)


def symbolic(val: Any) -> list[Any]:
    """The symbolic sizes of a `val`."""
    return [size for size in val.shape if not isinstance(size, int)] if isinstance(val, torch.Tensor) else []


class BakedSize(Exception):
    """An operation would have to know a size that varies; the message says what it would do with it."""


def merge(nets: Sequence[Net]) -> Net:
    """The first of the nets, with sizes that differ among them marked `Open`; BakedSize if anything else differs."""
    first = nets[0]
    if len(nets) == 1:
        return first
    if len({len(net.ops) for net in nets}) != 1:
        raise BakedSize("other operations for other sizes")
    same: dict[Value, tuple[Value, ...]] = {}
    for values in zip(*(net.inputs for net in nets), strict=True):
        _join(same, values)
    for ops in zip(*(net.ops for net in nets), strict=True):
        _compare(ops, same)
    for values in zip(*([value for value, _ in net.outputs] for net in nets), strict=True):
        if not _is_same(same, values):
            raise BakedSize("other results for other sizes")
    return first


def _join(same: dict[Value, tuple[Value, ...]], values: tuple[Value | None, ...]) -> None:
    """Note that `values` are one, and mark its open sizes."""
    first = values[0]
    if first is None:
        return
    joined = tuple(value for value in values if value is not None)
    same[first] = joined
    first.shape = _marked([value.shape for value in joined])


def _marked(shapes: list[Shape]) -> Shape:
    if len({len(shape) for shape in shapes}) != 1:
        raise BakedSize("other ranks for other sizes")
    return tuple(sizes[0] if len(set(sizes)) == 1 else Open(sizes[0]) for sizes in zip(*shapes, strict=True))


def _is_same(same: dict[Value, tuple[Value, ...]], values: tuple[Value, ...]) -> bool:
    first = values[0]
    if first.constant is None:
        return same.get(first) == values
    return all(_equal(first, value) for value in values[1:])


def _equal(a: Value, b: Value) -> bool:
    if a is b or a.constant is b.constant:
        return True
    return a.constant is not None and b.constant is not None and np.array_equal(a.constant, b.constant, equal_nan=True)


def _compare(ops: tuple[Op, ...], same: dict[Value, tuple[Value, ...]]) -> None:
    """Check that `ops` are one operation, and mark the open sizes in the first."""
    op = ops[0]
    name = op.kind.__name__
    if any((other.kind, other.rule, len(other.inputs)) != (op.kind, op.rule, len(op.inputs)) for other in ops):
        raise BakedSize("other operations for other sizes")
    for values in zip(*(other.inputs for other in ops), strict=True):
        if not _is_same(same, values):
            raise BakedSize(f"{name} of numbers that depend on it")
    shapes = [other.inputs[0].shape for other in ops]
    _join(same, tuple(other.output for other in ops))
    _join(same, tuple(other.second for other in ops))
    for key, value in op.attributes.items():
        given = [other.attributes[key] for other in ops]
        if key == "sizes":
            op.attributes[key] = tuple(_window(list(one)) for one in zip(zip(*given), zip(*shapes)))
        elif key != "new_shape" and any(other != value for other in given):
            raise BakedSize(f"{name} with another {key}")
    if any(other.clamp != op.clamp for other in ops):
        raise BakedSize(f"{name} with another range")
    if op.kind is g.StaticReshape and sum(isinstance(size, Open) for size in op.output.shape) > 1:
        raise BakedSize("a reshape with two open sizes, of which XNNPACK finds one only; fix all but one of them")


def _window(pair: list[tuple[int, ...]]) -> int:
    """A size of a slice: a number, or open if it is that of the whole dimension."""
    sizes, whole = pair
    if len(set(sizes)) == 1 and len(set(whole)) == 1:
        return sizes[0]
    if sizes == whole:
        return Open(sizes[0])
    if len(set(sizes)) == 1:
        return sizes[0]
    raise BakedSize("a slice whose length varies")


def names(tensors: Iterator[torch.Tensor]) -> str:
    """The symbolic sizes of some `val`s, for messages."""
    return ", ".join(dict.fromkeys(str(size) for tensor in tensors for size in symbolic(tensor)))
