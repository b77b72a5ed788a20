"""Values that operations inside delegates compute, for debugging. Imports neither torch nor numpy."""

from __future__ import annotations

from dataclasses import dataclass

from edgecore._runtime import Program as NativeProgram
from edgecore._runtime import Tensor
from edgecore.format.flat import unpack
from edgecore.format.meta import META_IDENTIFIER, DelegateOperation, Meta


@dataclass(frozen=True, slots=True)
class OperationValue:
    """The value of one operation of a delegate in one run.

    Attributes:
        delegate: Index of the delegate in the method.
        operation: The backend's name of the operation.
        handles: Debug handles of the graph nodes that the operation computes, in the graph's order; empty if the file's
            metadata does not list the operation. If the last of these nodes has the shape of `value`, it has this
            value. Otherwise the operation computes only a part of that node, and no node has this value.
        value: The value, with the dims of the graph.
    """

    delegate: int
    operation: str
    handles: tuple[int, ...]
    value: Tensor


def take_values(program: NativeProgram, method: int, name: str) -> list[OperationValue]:
    """Return the values that the delegates of a method have computed since the last call, oldest first.

    Args:
        program: The loaded program.
        method: Index of the method.
        name: Name of the method.
    """
    operations = _operations(program.metadata, name)
    dim_orders = {key: tuple(row.dim_order) for key, row in operations.items() if row.dim_order}
    values = []
    for delegate, operation, number, value in program.take_values(method, dim_orders):
        row = operations.get((delegate, operation)) or operations.get((delegate, number))
        values.append(OperationValue(delegate, operation, tuple(row.handles) if row else (), value))
    return values


def _operations(metadata: bytes | None, method: str) -> dict[tuple[int, str | int], DelegateOperation]:
    """Return the operations of a method by (index of the delegate, name of the operation, or its id without a name)."""
    meta = unpack(Meta, metadata, META_IDENTIFIER) if metadata else Meta()
    return {
        (index, operation.name or operation.id): operation
        for row in meta.methods
        if row.name == method
        for index, delegate in enumerate(row.delegates)
        for operation in delegate.operations
    }
