"""The view of a partition that a backend's compiler reads."""

from __future__ import annotations

from math import prod

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.program.constants import Constants
from edgecore.ir.program.mutable_state import MutableBuffer, mutable_buffers
from edgecore.ir.program.symbolic_sizes import Bounds


class PartitionView:
    """The nodes of a partition, sorted by kind.

    Attributes:
        inputs: The inputs, in the order of the delegate's arguments.
        buffers: The mutable buffers whose state the backend keeps: names, nodes of the old and new content, and initial
            values. These buffers are neither inputs nor outputs of the delegate.
        constants: The constants that the partition reads, with their detached tensors.
        calls: The operator calls, in topological order.
        outputs: The calls whose results are the delegate's outputs, in the order of the outputs.
    """

    def __init__(self, program: ExportedProgram) -> None:
        constants = Constants(program)
        placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
        self.buffers: list[MutableBuffer] = mutable_buffers(program)
        held = {buffer.node for buffer in self.buffers}
        self.inputs: list[Node] = [node for node in placeholders if not constants.has(node) and node not in held]
        self.constants: dict[Node, torch.Tensor] = {
            node: constants.get(node) for node in placeholders if constants.has(node)
        }
        self.calls: list[Node] = [node for node in program.graph.nodes if node.op == "call_function"]
        # Skip the first results: they are the new content of the mutable buffers, which the backend keeps.
        self.outputs: list[Node] = list(program.graph.output_node().args[0])[len(self.buffers) :]
        self._bounds = Bounds(program)

    def max_shape(self, node: Node) -> tuple[int, ...]:
        """Return the shape of a node's tensor with each symbolic size at its maximum.

        Raises:
            CompileError: A size has no upper bound.
        """
        return tuple(self._bounds.upper(size, node) for size in node.meta["val"].shape)

    def min_shape(self, node: Node) -> tuple[int, ...]:
        """Return the shape of a node's tensor, with each symbolic size at its minimum."""
        return tuple(self._bounds.lower(size) for size in node.meta["val"].shape)

    def max_bytes(self, node: Node, alignment: int = 1) -> int:
        """Return the size in bytes of a node's tensor at its maximum shape, rounded up to a multiple of `alignment`."""
        size = prod(self.max_shape(node)) * int(node.meta["val"].dtype.itemsize)
        return -(-size // alignment) * alignment


def debug_handles(*nodes: Node) -> tuple[int, ...]:
    """Return the debug handles of the nodes that an operation of the backend computes, for `debug_handle_map`."""
    return tuple(node.meta["debug_handle"] for node in nodes if "debug_handle" in node.meta)
