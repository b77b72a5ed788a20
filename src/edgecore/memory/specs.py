"""Tensor specs: the dtype, largest shape, dim order and memory of each tensor, as the runtime sees them."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from math import prod

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError
from edgecore.ir.control_flow import COND, control_flow, is_control_flow, results
from edgecore.ir.dialect.dim_orders import dim_order
from edgecore.ir.graph import describe
from edgecore.ir.operators.mutating_operators import writer_of
from edgecore.ir.program.symbolic_sizes import Bounds

SPEC = "spec"
"""Key in `node.meta`: the node's `TensorSpec`, or a tuple of specs if the node has several results."""


@dataclass(eq=False)
class TensorSpec:
    """A tensor of the program and its place in the memory plan.

    Attributes:
        dtype: Element type.
        shape: Largest size of each dim.
        dim_order: Dims in the order of memory, outermost first.
        dynamic: True if a size is symbolic.
        lifetime: Positions, in the order of execution, of the first and last node that use the tensor or its aliases.
        mem_id: Number of the arena, from 1; None if the tensor is not in an arena.
        mem_offset: Bytes from the start of the arena.
        base: The tensor whose memory this tensor shares, if any.
        base_offset: Bytes from the start of `base`.
        alignment: Divisor of `allocated_memory`, in bytes.
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
    alignment: int = 1

    @property
    def storage(self) -> TensorSpec:
        """The tensor that owns the memory: the end of the chain of `base`s; this tensor itself if it has no `base`."""
        spec = self
        while spec.base is not None:  # use a loop, not recursion: the chain may be longer than Python's recursion limit
            spec = spec.base
        return spec

    @property
    def storage_offset(self) -> int:
        """Bytes from the start of `storage`, which owns the memory, to the start of this tensor."""
        offset, spec = 0, self
        while spec.base is not None:
            offset += spec.base_offset
            spec = spec.base
        return offset

    @property
    def nbytes(self) -> int:
        """Size of the tensor in bytes at its largest shape."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def allocated_memory(self) -> int:
        """`nbytes`, rounded up to a multiple of `alignment`; planners of ExecuTorch read it by this name."""
        return -(-self.nbytes // self.alignment) * self.alignment

    def realign(self, alignment: int) -> int:
        """Set `alignment`, and return `allocated_memory`."""
        self.alignment = alignment
        return self.allocated_memory

    @classmethod
    def of(cls, val: torch.Tensor, node: Node, bounds: Bounds) -> TensorSpec:
        """Make the tensor spec of `val`, a result of `node`.

        Raises:
            CompileError: The strides correspond to no dim order, or a size has no upper bound.
        """
        order = dim_order(val)
        if order is None:
            raise CompileError(
                f"{describe(node)} has strides {tuple(val.stride())}, which correspond to no dim order; make the "
                "tensor contiguous"
            )
        shape = tuple(bounds.upper(size, node) for size in val.shape)
        return cls(val.dtype, shape, order, dynamic=not all(isinstance(size, int) for size in val.shape))


def assign_specs(program: ExportedProgram) -> None:
    """Set `meta["spec"]` of all nodes with tensor results; a `getitem` has the tensor spec of what it reads."""
    _assign(program.graph_module, Bounds(program), {})


Presets = dict[tuple[Node, "int | None"], TensorSpec]
"""(node, index of the result, None for a single result) -> the spec to use instead of a new one."""


def _assign(graph_module: GraphModule, bounds: Bounds, presets: Presets) -> None:
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and node.target is operator.getitem:
            node.meta[SPEC] = node.args[0].meta[SPEC][node.args[1]]
            continue
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor):
            node.meta[SPEC] = presets.get((node, None)) or TensorSpec.of(val, node, bounds)
        elif isinstance(val, (tuple, list)) and node.op == "call_function":
            node.meta[SPEC] = tuple(
                presets.get((node, index)) or TensorSpec.of(item, node, bounds)
                if isinstance(item, torch.Tensor)
                else None
                for index, item in enumerate(val)
            )
        if writer_of(node.target) is not None:
            _assign_written(node)
        if is_control_flow(node):
            _assign_bodies(node, bounds)


def _assign_written(node: Node) -> None:
    """Give the same tensor spec to an argument that `node` writes and to the result with its new content."""
    writer = writer_of(node.target)
    assert writer is not None
    written = [operand.meta[SPEC] for operand in writer.operands(node)]
    own = result_specs(node)[: writer.fresh]
    node.meta[SPEC] = (*own, *written) if isinstance(node.meta[SPEC], tuple) else written[0]


def _assign_bodies(node: Node, bounds: Bounds) -> None:
    """Assign tensor specs in the bodies of a control-flow node, so that values of the body share memory with the node.

    A carried input of a loop body shares the spec of the node's result, and a captured input shares the spec of its
    operand. A slice of a scanned tensor has its own memory. The branches of `cond` compute directly into the results of
    the node.
    """
    flow = control_flow(node)
    for body in flow.bodies:
        presets: Presets = {}
        for index, (placeholder, operand, is_slice) in enumerate(flow.bound(body)):
            spec = node.meta[SPEC][index] if index < len(flow.carried) else None
            if spec is None and isinstance(operand, Node) and not is_slice:
                spec = operand.meta.get(SPEC)
            if isinstance(spec, TensorSpec):
                presets[placeholder, None] = spec
        if node.target is COND:
            for value, spec in zip(results(body), node.meta[SPEC], strict=True):
                if spec is not None and isinstance(value, Node) and value.op == "call_function":
                    presets.setdefault(_producer(value), spec)
        _assign(body, bounds, presets)


def _producer(value: Node) -> tuple[Node, int | None]:
    """Return the node that computes `value`, and the index of the result if `value` is a getitem."""
    if value.target is not operator.getitem:
        return value, None
    source, index = value.args
    assert isinstance(source, Node) and isinstance(index, int)
    return source, index


def specs_of(node: Node) -> list[TensorSpec]:
    """Return the tensor specs of all tensor results of a node."""
    return [spec for spec in result_specs(node) if spec is not None]


def result_specs(node: Node) -> list[TensorSpec | None]:
    """Return the tensor specs of all results of a node; None for a result that is absent or not a tensor."""
    spec = node.meta.get(SPEC)
    if isinstance(spec, TensorSpec):
        return [spec]
    return list(spec) if isinstance(spec, tuple) else []
