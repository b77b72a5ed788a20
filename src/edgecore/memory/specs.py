"""What the runtime must know of a tensor: dtype, greatest shape, dim order, and where it will live."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError
from edgecore.ir.control_flow import COND, control_flow, is_control_flow, results
from edgecore.ir.graph import describe
from edgecore.ir.verifier import dim_order

SPEC = "spec"
"""Key in `node.meta` of the node's TensorSpec, or of a tuple of them for several results."""


@dataclass(eq=False)
class TensorSpec:
    """A planned value. `shape` is the greatest one; `lifetime` is the first and last instruction that touches it.

    `mem_id` counts arenas from 1, None is unplanned; `mem_offset` is in bytes. A tensor with a `base` lies in that one's
    memory, `base_offset` bytes from its start; the lifetime of a `root` is that of all tensors in it.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    dynamic: bool = False
    lifetime: tuple[int, int] = (0, 0)
    mem_id: int | None = None
    mem_offset: int = 0
    base: TensorSpec | None = None
    base_offset: int = 0

    @property
    def root(self) -> TensorSpec:
        """The tensor whose memory this one lies in: itself if it has no base."""
        return self if self.base is None else self.base.root

    @property
    def place(self) -> int:
        """Bytes from the start of the root."""
        return 0 if self.base is None else self.base.place + self.base_offset

    @property
    def nbytes(self) -> int:
        """Bytes at the greatest shape."""
        return prod(self.shape) * self.dtype.itemsize

    @classmethod
    def of(cls, val: torch.Tensor, node: Node, bounds: Bounds) -> TensorSpec:
        """The spec of a node's `val`."""
        order = dim_order(val)
        if order is None:
            raise CompileError(f"{describe(node)} has strides {tuple(val.stride())}, which no dim order describes")
        shape = tuple(bounds.upper(size, node) for size in val.shape)
        return cls(val.dtype, shape, order, dynamic=not all(isinstance(size, int) for size in val.shape))


class Bounds:
    """Least and greatest values of symbolic sizes, from the ranges that were given to `torch.export`."""

    def __init__(self, program: ExportedProgram) -> None:
        self.ranges = program.range_constraints

    def upper(self, size: Any, node: Node) -> int:
        """The greatest value of `size`; `CompileError` if it has none."""
        if isinstance(size, int):
            return size
        from torch.utils._sympy.numbers import int_oo
        from torch.utils._sympy.value_ranges import bound_sympy

        upper = bound_sympy(size.node.expr, self._ranges(size)).upper
        if upper in (int_oo, float("inf")) or not getattr(upper, "is_finite", True) or int(upper) > 2**40:
            raise CompileError(
                f"{describe(node)} has size {size} without an upper bound; give torch.export.Dim a max, as in "
                f'dynamic_shapes={{"x": {{0: torch.export.Dim("batch", max=8)}}}}, or, where the size depends on data, '
                "state it in the model: torch._check(y.shape[0] <= 8)"
            )
        return int(upper)

    def lower(self, size: Any) -> int:
        """The least value of `size`; 0 if nothing says more.

        A least of 1 or 2 of an input's size is what `torch.export` assumes while tracing: its programs take less.
        """
        if isinstance(size, int):
            return size
        from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

        ranges = {
            symbol: ValueRanges(0, bounds.upper) if bounds.lower <= 2 else bounds
            for symbol, bounds in self._ranges(size).items()
            if symbol in size.node.expr.free_symbols
        }
        lower = bound_sympy(size.node.expr, ranges).lower
        return int(lower) if lower > 0 else 0

    def _ranges(self, size: Any) -> dict[Any, Any]:
        # Symbols that a decomposition made are known to the shape environment only.
        return {**size.node.shape_env.var_to_range, **self.ranges}


def assign_specs(program: ExportedProgram) -> None:
    """Give every node with tensor results its `meta["spec"]`; a getitem shares its producer's."""
    _assign(program.graph_module, Bounds(program), {})


Given = dict[tuple[Node, "int | None"], TensorSpec]
"""Specs that a node, or one of its results, takes over."""


def _assign(graph_module: GraphModule, bounds: Bounds, given: Given) -> None:
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and node.target is operator.getitem:
            node.meta[SPEC] = node.args[0].meta[SPEC][node.args[1]]
            continue
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor):
            node.meta[SPEC] = given.get((node, None)) or TensorSpec.of(val, node, bounds)
        elif isinstance(val, (tuple, list)) and node.op == "call_function":
            node.meta[SPEC] = tuple(
                given.get((node, index)) or TensorSpec.of(item, node, bounds)
                if isinstance(item, torch.Tensor)
                else None
                for index, item in enumerate(val)
            )
        if is_control_flow(node):
            _assign_bodies(node, bounds)


def _assign_bodies(node: Node, bounds: Bounds) -> None:
    """Inputs of a body share the spec of what they stand for: state lives in the results of the node, and slices have
    memory of their own. A branch computes the results of `cond` in place.
    """
    flow = control_flow(node)
    for body in flow.bodies:
        given: Given = {}
        for index, (placeholder, operand, is_slice) in enumerate(flow.bound(body)):
            spec = node.meta[SPEC][index] if index < len(flow.carried) else None
            if spec is None and isinstance(operand, Node) and not is_slice:
                spec = operand.meta.get(SPEC)
            if isinstance(spec, TensorSpec):
                given[placeholder, None] = spec
        if node.target is COND:
            for value, spec in zip(results(body), node.meta[SPEC], strict=True):
                if spec is not None and isinstance(value, Node) and value.op == "call_function":
                    given.setdefault(_producer(value), spec)
        _assign(body, bounds, given)


def _producer(value: Node) -> tuple[Node, int | None]:
    if value.target is not operator.getitem:
        return value, None
    source, index = value.args
    assert isinstance(source, Node) and isinstance(index, int)
    return source, index


def specs_of(node: Node) -> list[TensorSpec]:
    """The specs of all results of a node."""
    spec = node.meta.get(SPEC)
    if isinstance(spec, TensorSpec):
        return [spec]
    return [item for item in spec if item is not None] if isinstance(spec, tuple) else []
