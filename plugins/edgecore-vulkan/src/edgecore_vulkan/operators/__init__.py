"""Define the table of operators that the delegate supports, for partitioner, lowering and `docs/operators.md`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.sdk import (
    Bounds,
    Constants,
    LayoutReason,
    NodeQuery,
    OperatorTable,
    contiguous_only,
    dim_order,
    integers_of_32_bits,
    mutable_buffers,
)
from edgecore_vulkan.graph.calls import Call, SizeValue, TensorValue
from edgecore_vulkan.graph.profile import Profile
from edgecore_vulkan.graph.registry import entry_of, problem
from edgecore_vulkan.operators import (
    convolution,
    elementwise,
    matmul,
    normalization,
    pooling,
    quantized,
    reductions,
    shapes,
    state,
)
from edgecore_vulkan.operators.builder import Builder, Lower, Query, Row, Unsupported

_ROWS: tuple[Row, ...] = (
    *elementwise.ROWS, *convolution.ROWS, *matmul.ROWS, *pooling.ROWS, *normalization.ROWS, *quantized.ROWS,
    *reductions.ROWS, *shapes.ROWS, *state.ROWS,
)  # fmt: skip

_INDICES = {
    torch.ops.aten.argmax.default,
    torch.ops.aten.argmin.default,
    torch.ops.aten.max_pool2d_with_indices.default,
}
"""Operators that return indices, which the row's dtypes do not restrict."""


def _contiguous_or_channels_last(query: NodeQuery) -> str | None:
    """Refuse a tensor that is neither contiguous nor channels-last: edgecore's delegate supports no other orders."""
    for name, val in query.vals():
        if isinstance(val, torch.Tensor) and dim_order(val) not in (tuple(range(val.dim())), (0, 2, 3, 1)):
            return LayoutReason(f"{name} is neither contiguous nor channels last")
    return None


class VulkanTable(OperatorTable[Lower]):
    """The table of the operators that the delegate supports for a target (`Profile`: runtime and options).

    To check an fx node, the table lowers it to the delegate's operator calls, and checks these by the registry. So the
    partitioner cannot accept a node that the lowering cannot handle.
    """

    def __init__(self, profile: Profile) -> None:
        layouts = contiguous_only if profile.is_stock else _contiguous_or_channels_last
        super().__init__(_ROWS, (layouts, integers_of_32_bits))
        self.profile = profile

    def make_query(self, program: ExportedProgram, *, is_decomposed: bool = True) -> Callable[[Node], Query]:
        """Return a function that creates the `Query` of an fx node, by which the table checks the node."""
        first = Query(program.graph.output_node(), Constants(program), is_decomposed)
        first.profile, first.bounds = self.profile, Bounds(program)
        first.buffers = {buffer.node: buffer for buffer in mutable_buffers(program)}
        return first.about

    def tensor_reason(self, query: NodeQuery, row: Row) -> str | None:
        """Return why a tensor of an fx node has an unsupported dtype or size, or None; inputs may be symbolic sizes."""
        assert isinstance(query, Query)
        unread = isinstance(query.node.meta["val"], (tuple, list))
        for name, val in query.vals(except_arguments=row.any_dtype):
            if isinstance(val, torch.SymInt):
                continue
            if not isinstance(val, torch.Tensor):
                return f"{name} is not a tensor"
            if name == "its result" and val.dtype == torch.int64 and query.node.target in _INDICES:
                continue
            if val.dtype not in row.dtypes:
                return super().tensor_reason(query, row)
            if val.dtype == torch.bool and self.profile.skip_bool_tensors:
                return f"{name} is bool, and skip_bool_tensors is set"
            if 0 in val.shape and not (unread and name == "its result"):
                return f"{name} has no elements"
        return None

    def row_reason(self, query: NodeQuery) -> str | None:
        """Return why an fx node violates its row's constraints or cannot be lowered; None if neither is true."""
        assert isinstance(query, Query)
        reason = super().row_reason(query)
        if reason or query.node.target not in self.rows:
            return reason
        return self._writing_reason(query)

    def _writing_reason(self, query: Query) -> str | None:
        try:
            calls = self._write(query)
        except Unsupported as error:
            return str(error)
        except CompileError as error:  # raised for a symbolic size without an upper bound
            return str(error)
        for call in calls:
            reason = problem(call, self.profile)
            if reason:
                return reason
            entry = entry_of(call.name, self.profile)
            assert entry is not None
            if self.profile.require_dynamic_shapes and not entry.resizes:
                return f"{call.name} does not support other sizes, and require_dynamic_shapes is set"
        is_symbolic = any(
            not isinstance(size, int) for _, val in query.vals() if isinstance(val, torch.Tensor) for size in val.shape
        )
        fixed = [call.name for call in calls if not getattr(entry_of(call.name, self.profile), "resizes", True)]
        if is_symbolic and self.profile.is_stock and fixed:
            return f"symbolic sizes, which executorch 1.5 does not support in {fixed[0]}"
        return None

    def _write(self, query: Query) -> list[Call]:
        """Lower a single node: its computed inputs become inputs of the partition. Return the operator calls."""
        node = query.node

        builder = Builder(self.profile, query.stored, query.shape)
        for source in node.all_input_nodes:
            val = source.meta["val"]
            if isinstance(val, torch.SymInt):
                builder.values[source] = SizeValue()
            elif not query.is_constant(source):
                builder.values[source] = TensorValue(query.shape(val, source), val.dtype)
        self.rows[node.target].lower(builder, node)
        return builder.graph.calls


TABLE = VulkanTable(Profile(is_stock=False))
"""The table for the runtime `edgecore`, which supports all operators."""
