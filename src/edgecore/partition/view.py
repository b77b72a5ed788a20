"""A partition as `BackendCompiler.preprocess` receives it, read for a compiler."""

from __future__ import annotations

from math import prod

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.constants import Constants
from edgecore.ir.tensors import Bounds


class PartitionView:
    """The nodes of a partition by what they are.

    `inputs` are in the order of the delegate's arguments, `outputs` too, which are among `calls`: the operator calls in an
    order in which they can run. `constants` are the weights that they read, detached.
    """

    def __init__(self, program: ExportedProgram) -> None:
        known = Constants(program)
        placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
        self.inputs: list[Node] = [node for node in placeholders if not known.has(node)]
        self.constants: dict[Node, torch.Tensor] = {node: known.get(node) for node in placeholders if known.has(node)}
        self.calls: list[Node] = [node for node in program.graph.nodes if node.op == "call_function"]
        self.outputs: list[Node] = list(program.graph.output_node().args[0])
        self._bounds = Bounds(program)

    def max_shape(self, node: Node) -> tuple[int, ...]:
        """Shape of a node's tensor, symbolic sizes at their upper bounds.

        Raises:
            CompileError: A size has no upper bound.
        """
        return tuple(self._bounds.upper(size, node) for size in node.meta["val"].shape)

    def min_shape(self, node: Node) -> tuple[int, ...]:
        """Shape of a node's tensor, symbolic sizes at their lower bounds."""
        return tuple(self._bounds.lower(size) for size in node.meta["val"].shape)

    def max_bytes(self, node: Node, alignment: int = 1) -> int:
        """Size in bytes of a node's tensor at its max shape, rounded up to a multiple of `alignment`."""
        size = prod(self.max_shape(node)) * int(node.meta["val"].dtype.itemsize)
        return -(-size // alignment) * alignment


def debug_handles(*nodes: Node) -> tuple[int, ...]:
    """What stands for nodes in `PreprocessResult.debug_handle_map`."""
    return tuple(node.meta["debug_handle"] for node in nodes if "debug_handle" in node.meta)
