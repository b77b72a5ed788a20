"""The runtime's view of a tensor: dtype, maximum shape, dim order, and where its memory lies."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from math import prod

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError
from edgecore.ir.control_flow import COND, control_flow, is_control_flow, results
from edgecore.ir.graph import describe
from edgecore.ir.tensors import Bounds, dim_order

SPEC = "spec"
"""Key in `node.meta` of the node's TensorSpec, or of a tuple of them for several results."""


@dataclass(eq=False)
class TensorSpec:
    """A planned value. `shape` is the maximum; `lifetime` is the first and last instruction that touches it.

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
    def root_offset(self) -> int:
        """Bytes from the start of the root."""
        return 0 if self.base is None else self.base.root_offset + self.base_offset

    @property
    def nbytes(self) -> int:
        """Bytes at the maximum shape."""
        return prod(self.shape) * self.dtype.itemsize

    @classmethod
    def of(cls, val: torch.Tensor, node: Node, bounds: Bounds) -> TensorSpec:
        """The spec of a node's `val`."""
        order = dim_order(val)
        if order is None:
            raise CompileError(f"{describe(node)} has strides {tuple(val.stride())}, which no dim order describes")
        shape = tuple(bounds.upper(size, node) for size in val.shape)
        return cls(val.dtype, shape, order, dynamic=not all(isinstance(size, int) for size in val.shape))


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
