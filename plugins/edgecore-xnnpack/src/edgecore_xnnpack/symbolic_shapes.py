"""Symbolic sizes: lower a graph for several samples of the sizes, and give XNNPACK what all samples have in common.

An operator's lowering is ordinary code over numbers. Instead of giving each one a second, symbolic form, it runs once
for each sample: `Symbols.choices`, five points. A size, attribute or constant that is equal in all samples is taken
as fixed, a tensor's size that differs becomes a `SymbolicSize`, which XNNPACK infers at run time, and any other
difference (another operation, attribute or constant) means that the call is not supported.

The assumption: every number that a lowering computes is a piecewise linear function of the sizes (sums, products with
a number, floors by strides and factors), and one that varies at all varies among the samples. Steps of 1 and 2 show
floors by 2 and 3, the long steps, 67 and 1021, those of sizes that were divided many times; each symbol moves at its
own rate, so sizes that are equal by chance in one sample differ in another. The assumption fails, without an error,
for a number that is the same in all samples and different elsewhere: `min(size, 8)` with an upper bound above 8, a
floor by more than 1021, or a lowering with a special case for small sizes, such as 1. Lowerings therefore have no
such cases, and `test_symbolic_shapes.py` runs the smallest, middle and largest sizes. Samples above the bounds do no
harm: the bounds say how much memory is needed, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore_xnnpack.schema import graph as g
from edgecore_xnnpack.subgraph import Shape, Subgraph, SubgraphNode, SubgraphValue, SymbolicSize

_STEPS = (0, 1, 2, 67, 1021)
"""Steps above the upper bounds, one for each sample; the module's docstring has the reasons."""


class Sizes:
    """One sample: a number for each symbol (sympy's) of a program."""

    def __init__(self, numbers: dict[Any, int]) -> None:
        self._numbers = numbers
        self._known: dict[Any, int] = {}

    def number(self, size: Any) -> int:
        """Return a size as a number."""
        if isinstance(size, int):
            return size
        expression = size.node.expr
        if expression not in self._known:
            self._known[expression] = int(expression.subs(self._numbers))
        return self._known[expression]

    def resolve(self, value: Any) -> Any:
        """Return an argument of a call with the sizes in it as numbers."""
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.resolve, value))
        if isinstance(value, Node) and isinstance(value.meta.get("val"), torch.SymInt):
            return self.number(value.meta["val"])
        return value

    def of(self, tensor: torch.Tensor) -> Shape:
        """Return the shape of a `val` in numbers."""
        return tuple(self.number(size) for size in tensor.shape)


class Symbols:
    """The symbols in the shapes of a program.

    Attributes:
        choices: The samples to lower it for, the upper bounds first; one without symbols if the program is static.
        problems: For each symbol without usable bounds, why calls with it are not supported.
    """

    def __init__(self, program: ExportedProgram) -> None:
        shape_envs: dict[Any, Any] = {}
        for node in program.graph.nodes:
            val = node.meta.get("val")
            for tensor in val if isinstance(val, (tuple, list)) else (val,):
                for size in symbolic(tensor):
                    shape_envs.update(dict.fromkeys(size.node.expr.free_symbols, size.node.shape_env))
        self.problems: dict[Any, str] = {}
        upper: dict[Any, int] = {}
        for symbol in sorted(shape_envs, key=str):
            bounds = program.range_constraints.get(symbol) or shape_envs[symbol].var_to_range.get(symbol)
            if bounds is None or not getattr(bounds.upper, "is_Integer", False):
                self.problems[symbol] = f"size {symbol} has no upper bound"
            elif bounds.lower <= 0 and str(symbol).startswith("u"):
                self.problems[symbol] = f"size {symbol} depends on data and may be 0"
            upper[symbol] = int(bounds.upper) if symbol not in self.problems else 2
        steps = _STEPS if upper else (0,)
        self.choices = [
            Sizes({symbol: bound + step * (index + 1) for index, (symbol, bound) in enumerate(upper.items())})
            for step in steps
        ]

    def problem(self, tensor: torch.Tensor) -> str | None:
        """Say why the sizes of a `val` are not supported."""
        symbols = [symbol for size in symbolic(tensor) for symbol in size.node.expr.free_symbols]
        return next((self.problems[symbol] for symbol in symbols if symbol in self.problems), None)


def symbolic(val: Any) -> list[Any]:
    """List the symbolic sizes of a `val`."""
    return [size for size in val.shape if not isinstance(size, int)] if isinstance(val, torch.Tensor) else []


class SizeDependent(Exception):
    """An operation depends on a size that varies; the message says how."""


def merge(subgraphs: Sequence[Subgraph]) -> Subgraph:
    """Merge the subgraphs of all samples: the first one, with sizes that differ among them marked `SymbolicSize`.

    Raises:
        SizeDependent: Anything else differs.
    """
    first = subgraphs[0]
    if len(subgraphs) == 1:
        return first
    if len({len(subgraph.nodes) for subgraph in subgraphs}) != 1:
        raise SizeDependent("other operations for other sizes")
    same: dict[SubgraphValue, tuple[SubgraphValue, ...]] = {}
    for values in zip(*(subgraph.inputs for subgraph in subgraphs), strict=True):
        _join(same, values)
    for ops in zip(*(subgraph.nodes for subgraph in subgraphs), strict=True):
        _compare(ops, same)
    for values in zip(*([value for value, _ in subgraph.outputs] for subgraph in subgraphs), strict=True):
        if not _is_same(same, values):
            raise SizeDependent("other results for other sizes")
    return first


def _join(same: dict[SubgraphValue, tuple[SubgraphValue, ...]], values: tuple[SubgraphValue | None, ...]) -> None:
    """Note that `values` correspond to each other, and mark the symbolic sizes of the first."""
    first = values[0]
    if first is None:
        return
    joined = tuple(value for value in values if value is not None)
    same[first] = joined
    first.shape = _marked([value.shape for value in joined])


def _marked(shapes: list[Shape]) -> Shape:
    if len({len(shape) for shape in shapes}) != 1:
        raise SizeDependent("other ranks for other sizes")
    return tuple(sizes[0] if len(set(sizes)) == 1 else SymbolicSize(sizes[0]) for sizes in zip(*shapes, strict=True))


def _is_same(same: dict[SubgraphValue, tuple[SubgraphValue, ...]], values: tuple[SubgraphValue, ...]) -> bool:
    first = values[0]
    if first.constant is None:
        return same.get(first) == values
    return all(_equal(first, value) for value in values[1:])


def _equal(a: SubgraphValue, b: SubgraphValue) -> bool:
    if a is b or a.constant is b.constant:
        return True
    return a.constant is not None and b.constant is not None and np.array_equal(a.constant, b.constant, equal_nan=True)


def _compare(ops: tuple[SubgraphNode, ...], same: dict[SubgraphValue, tuple[SubgraphValue, ...]]) -> None:
    """Check that `ops` correspond to each other, and mark the symbolic sizes in the first."""
    op = ops[0]
    name = op.kind.__name__
    if any((other.kind, other.rule, len(other.inputs)) != (op.kind, op.rule, len(op.inputs)) for other in ops):
        raise SizeDependent("other operations for other sizes")
    for values in zip(*(other.inputs for other in ops), strict=True):
        if not _is_same(same, values):
            raise SizeDependent(f"{name} of numbers that depend on it")
    shapes = [other.inputs[0].shape for other in ops]
    _join(same, tuple(other.output for other in ops))
    _join(same, tuple(other.second for other in ops))
    for key, value in op.attributes.items():
        values_of_key = [other.attributes[key] for other in ops]
        if key == "sizes":
            op.attributes[key] = tuple(_slice_size(*samples) for samples in zip(zip(*values_of_key), zip(*shapes)))
        elif key != "new_shape" and any(other != value for other in values_of_key):
            raise SizeDependent(f"{name} with another {key}")
    if any(other.clamp != op.clamp for other in ops):
        raise SizeDependent(f"{name} with another range")
    if op.kind is g.StaticReshape and sum(isinstance(size, SymbolicSize) for size in op.output.shape) > 1:
        raise SizeDependent("a reshape with two open sizes, of which XNNPACK finds one only; fix all but one of them")


def _slice_size(sizes: tuple[int, ...], input_sizes: tuple[int, ...]) -> int:
    """Return the size of a slice along a dimension: a number, symbolic if it is always the whole dimension."""
    if sizes == input_sizes and len(set(sizes)) > 1:
        return SymbolicSize(sizes[0])
    if len(set(sizes)) == 1:
        return sizes[0]
    raise SizeDependent("a slice whose length varies")


def names(tensors: Iterator[torch.Tensor]) -> str:
    """Join the symbolic sizes of some `val`s, for messages."""
    return ", ".join(dict.fromkeys(str(size) for tensor in tensors for size in symbolic(tensor)))
