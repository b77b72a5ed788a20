"""Symbolic sizes: lower a graph for five samples of the sizes, and keep what all five results have in common.

Lowerings compute with plain numbers, so that they need no symbolic variant. A sample (`Symbols.samples`) gives each
symbol a number. A graph is lowered once per sample, and `merge` compares the results. A number that is the same in all
five results stays as it is. A tensor size that differs becomes a `SymbolicSize`, which XNNPACK infers at run time. If
anything else differs (operation, attribute, constant), the call is not supported.

Assumption: a number that depends on a size differs between at least two samples. The k-th symbol is sampled at its
upper bound plus 0, 1, 2, 67 * k and 1021 * k. Sums and products with constants, and remainders by any divisor, differ
at the step of 1. A floor division by d differs if d is at most 1021 * k. Two symbols that are equal by chance in the
first three samples differ in the others, because each symbol has its own k. Samples above the bound are harmless:
bounds only say how much memory to reserve.

The assumption fails, with wrong results or an error at run time, for a number that is equal in all samples but not
for all sizes: `min(size, 8)` if the upper bound is 8 or more, or a special case for small sizes such as 1. Lowerings
must not contain these; `test_symbolic_shapes.py` runs small, middle and maximum sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore_xnnpack.graph.subgraph import Shape, Subgraph, SubgraphNode, SubgraphValue, SymbolicSize
from edgecore_xnnpack.schema import graph as g

_SMALL_STEPS = (0, 1, 2)
_LARGE_STEPS = (67, 1021)
"""Distances above the upper bounds in the last two samples; each is multiplied by the number of the symbol. The
docstring of this module gives the reasons."""


class Sizes:
    """One sample of the symbolic sizes: a number for each sympy symbol in the shapes of a program."""

    def __init__(self, numbers: dict[Any, int]) -> None:
        self._numbers = numbers
        self._known: dict[Any, int] = {}

    def number(self, size: Any) -> int:
        """Return the number that a symbolic or static size has in this sample of the symbolic sizes."""
        if isinstance(size, int):
            return size
        expression = size.node.expr
        if expression not in self._known:
            self._known[expression] = int(expression.subs(self._numbers))
        return self._known[expression]

    def resolve(self, value: Any) -> Any:
        """Return an argument of an fx node with its symbolic sizes replaced by numbers."""
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.resolve, value))
        if isinstance(value, Node) and isinstance(value.meta.get("val"), torch.SymInt):
            return self.number(value.meta["val"])
        return value

    def of(self, tensor: torch.Tensor) -> Shape:
        """Return the shape that a tensor (the `val` of an fx node) has in this sample."""
        return tuple(self.number(size) for size in tensor.shape)


class Symbols:
    """The symbols in the shapes of a program.

    Attributes:
        samples: The samples to lower the program for. The first one has the upper bounds. A program without symbols
            has a single sample.
        problems: For each symbol without usable bounds, the reason why calls that read it are not supported.
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
        numbers = [
            [bound + step for step in (*_SMALL_STEPS, *(step * number for step in _LARGE_STEPS))]
            for number, bound in enumerate(upper.values(), 1)
        ]
        self.samples = [Sizes(dict(zip(upper, sample, strict=True))) for sample in zip(*numbers, strict=True)]
        self.samples = self.samples or [Sizes({})]

    def problem(self, tensor: torch.Tensor) -> str | None:
        """Return why the symbolic sizes of `tensor` (the `val` of an fx node) are not supported; None if they are."""
        symbols = [symbol for size in symbolic(tensor) for symbol in size.node.expr.free_symbols]
        return next((self.problems[symbol] for symbol in symbols if symbol in self.problems), None)


def symbolic(val: Any) -> list[Any]:
    """List the symbolic sizes of `node.meta["val"]` of an fx node; an empty list if it is not a tensor."""
    return [size for size in val.shape if not isinstance(size, int)] if isinstance(val, torch.Tensor) else []


class SizeDependent(Exception):
    """The lowering of an fx node depends on the value of a symbolic size; the message says how."""


def merge(subgraphs: Sequence[Subgraph]) -> Subgraph:
    """Merge the subgraphs that a program was lowered to for several samples of its symbolic sizes.

    The result is the first subgraph, in which a `SymbolicSize` replaces each tensor size that differs.

    Raises:
        SizeDependent: The subgraphs differ in anything else.
    """
    first = subgraphs[0]
    if len(subgraphs) == 1:
        return first
    if len({len(subgraph.nodes) for subgraph in subgraphs}) != 1:
        raise SizeDependent("different sizes need different operations")
    same: dict[SubgraphValue, tuple[SubgraphValue, ...]] = {}
    for values in zip(*(subgraph.inputs for subgraph in subgraphs), strict=True):
        _join(same, values)
    for states in zip(*(subgraph.states for subgraph in subgraphs), strict=True):
        _join(same, tuple(state.value for state in states))
    for ops in zip(*(subgraph.nodes for subgraph in subgraphs), strict=True):
        _compare(ops, same)
    for values in zip(*([value for value, _ in subgraph.outputs] for subgraph in subgraphs), strict=True):
        if not _is_same(same, values):
            raise SizeDependent("different sizes return different values")
    return first


def _join(same: dict[SubgraphValue, tuple[SubgraphValue, ...]], values: tuple[SubgraphValue | None, ...]) -> None:
    """Record that `values`, one per sample, are the same tensor; make sizes that differ symbolic in `values[0]`."""
    first = values[0]
    if first is None:
        return
    present = tuple(value for value in values if value is not None)
    same[first] = present
    first.shape = _marked([value.shape for value in present])


def _marked(shapes: list[Shape]) -> Shape:
    """Return the first of `shapes`, with a `SymbolicSize` for each size that is not the same in all of them."""
    if len({len(shape) for shape in shapes}) != 1:
        raise SizeDependent("different sizes give different ranks")
    return tuple(sizes[0] if len(set(sizes)) == 1 else SymbolicSize(sizes[0]) for sizes in zip(*shapes, strict=True))


def _is_same(same: dict[SubgraphValue, tuple[SubgraphValue, ...]], values: tuple[SubgraphValue, ...]) -> bool:
    """Return True if `values`, one per sample, are equal constants or were recorded as the same tensor."""
    first = values[0]
    if first.constant is None:
        return same.get(first) == values
    return all(_equal(first, value) for value in values[1:])


def _equal(a: SubgraphValue, b: SubgraphValue) -> bool:
    if a is b or a.constant is b.constant:
        return True
    return a.constant is not None and b.constant is not None and np.array_equal(a.constant, b.constant, equal_nan=True)


def _compare(ops: tuple[SubgraphNode, ...], same: dict[SubgraphValue, tuple[SubgraphValue, ...]]) -> None:
    """Check that `ops`, one per sample, are the same operation; make sizes that differ symbolic in `ops[0]`."""
    op = ops[0]
    name = op.kind.__name__
    if any((other.kind, other.rule, len(other.inputs)) != (op.kind, op.rule, len(op.inputs)) for other in ops):
        raise SizeDependent("different sizes need different operations")
    for values in zip(*(other.inputs for other in ops), strict=True):
        if not _is_same(same, values):
            raise SizeDependent(f"an input of {name} depends on it")
    shapes = [other.inputs[0].shape for other in ops]
    _join(same, tuple(other.output for other in ops))
    _join(same, tuple(other.second for other in ops))
    for key, value in op.attributes.items():
        values_of_key = [other.attributes[key] for other in ops]
        if key == "sizes":
            op.attributes[key] = tuple(_slice_size(*samples) for samples in zip(zip(*values_of_key), zip(*shapes)))
        elif key != "new_shape" and any(other != value for other in values_of_key):
            raise SizeDependent(f"{key} of {name} depends on it")
    if any(other.clamp != op.clamp for other in ops):
        raise SizeDependent(f"the clamp of {name} depends on it")
    if op.kind is g.StaticReshape and sum(isinstance(size, SymbolicSize) for size in op.output.shape) > 1:
        raise SizeDependent(
            "a reshape to several symbolic sizes, of which XNNPACK can infer only one; make the others static"
        )


def _slice_size(sizes: tuple[int, ...], input_sizes: tuple[int, ...]) -> int:
    """Return the length of a slice of one dimension: symbolic if it is the whole dimension in every sample."""
    if sizes == input_sizes and len(set(sizes)) > 1:
        return SymbolicSize(sizes[0])
    if len(set(sizes)) == 1:
        return sizes[0]
    raise SizeDependent("a slice whose length depends on it")


def symbol_names(tensors: Iterator[torch.Tensor]) -> str:
    """Return the symbolic sizes of `tensors` separated by commas, for messages."""
    return ", ".join(dict.fromkeys(str(size) for tensor in tensors for size in symbolic(tensor)))
