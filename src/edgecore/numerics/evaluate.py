"""Run a graph in PyTorch node by node, with callbacks that see each result or replace the operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Interpreter, Node

from edgecore.ir.delegate import call_delegate
from edgecore.ir.program.copying import module_to_run

See = Callable[[Node, Any], Any]
"""A callback that receives a node and its result, and returns the value that later nodes read."""

Compute = Callable[[Node, tuple[Any, ...], dict[str, Any]], Any]
"""A callback that receives the call of an operator and the arguments, and returns the result."""


class Evaluator(Interpreter):
    """Runs a graph node by node.

    Args:
        module: The module of the graph.
        see: Receives each node with its result, including inputs, constants and the output.
        compute: Computes the calls of operators; by default the operators are called.
    """

    def __init__(self, module: torch.nn.Module, *, see: See | None = None, compute: Compute | None = None) -> None:
        super().__init__(module)
        self._see = see
        self._compute = compute
        self._node: Node

    def run_node(self, n: Node) -> Any:
        self._node = n
        result = super().run_node(n)
        return result if self._see is None else self._see(n, result)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._compute is None:
            return super().call_function(target, args, kwargs)
        return self._compute(self._node, args, kwargs)


def run_through_delegates(
    program: ExportedProgram, inputs: Sequence[Any], see: Callable[[Node, Any, bool], None]
) -> None:
    """Run a program in PyTorch; in place of each delegate, run the program from which the delegate was made.

    Args:
        program: The program.
        inputs: Its inputs.
        see: Receives each node, its result, and True if the node is inside a delegate.
    """

    def run(module: GraphModule, operands: Sequence[Any], is_inside: bool) -> Any:
        def show(node: Node, result: Any) -> Any:
            see(node, result, is_inside)
            return result

        return Evaluator(module, see=show, compute=compute).run(*operands)

    def compute(node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if node.target is not call_delegate:
            return node.target(*args, **kwargs)  # type: ignore[operator]
        delegate, *operands = args
        return run(module_to_run(delegate.original_module, check_guards=False), operands, True)

    with torch.no_grad():
        run(module_to_run(program), inputs, False)


def first(result: Any) -> Any:
    """Return the result of a node, or the first if there are several, as in a recurrent layer."""
    return result[0] if isinstance(result, (tuple, list)) and result else result


def copied(value: Any) -> Any:
    """Copy a tensor; return other values unchanged."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
