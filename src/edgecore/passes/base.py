"""A base class for passes that work node by node, with the names of ExecuTorch's documentation."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.utils._pytree import tree_map_only

from edgecore.errors import CompileError
from edgecore.ir.control_flow import graph_modules
from edgecore.ir.graph import KEPT_META, calls, compute_val, describe, fake_mode, replace

aten = torch.ops.aten


class ExportPass(PassBase):
    """A base class of passes that visit every call, including those in branches and loop bodies.

    A subclass overrides `call_operator`. Values are nodes: `value.meta["val"]` is the fake tensor. The graph is edited
    in place; a call that `call_operator` does not change stays the same node. The methods `requires` and `ensures`
    check the graph before and after the pass.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Run the pass over a graph."""
        self._mode = fake_mode(graph_module)
        modified = False
        for part in graph_modules(graph_module):
            for node in calls(part):
                self._node = node
                result = self.call_operator(node.target, node.args, node.kwargs, node.meta)
                if result is not node:
                    modified = True
                    replace(node, result)
            part.recompile()
        return PassResult(graph_module, modified)

    def call_operator(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: dict[str, Any]) -> Node:
        """Return the node that replaces the visited call.

        This method inserts a call of `op` before the visited call, or returns the visited call if nothing has changed.
        A subclass calls it with another operator or other arguments.

        A tensor without dims as an argument, `torch.tensor(2.0)`, becomes a call of `aten.full`.

        Args:
            op: The operator.
            args: Its arguments; values are nodes.
            kwargs: Its keyword arguments.
            meta: The `meta` of the visited call.

        Raises:
            CompileError: An argument is a tensor with dims.
        """
        node = self._node
        args, kwargs = tree_map_only(torch.Tensor, self._full, (tuple(args), dict(kwargs)))
        if op is node.target and args == node.args and kwargs == node.kwargs:
            return node
        with node.graph.inserting_before(node):
            created: Node = node.graph.call_function(op, tuple(args), dict(kwargs))
        created.meta = {key: meta[key] for key in KEPT_META if key in meta}
        created.meta["val"] = compute_val(self._mode, op, created.args, created.kwargs)
        return created

    def _full(self, value: torch.Tensor) -> Node:
        """Insert a call that makes a tensor without dims."""
        if value.dim():
            raise CompileError(
                f"{describe(self._node)}: a pass gave a tensor of shape {tuple(value.shape)} as an argument; only a tensor "
                "without dims can be one, so add a buffer to the program"
            )
        with self._node.graph.inserting_before(self._node):
            created: Node = self._node.graph.call_function(
                aten.full.default, ([], value.item()), {"dtype": value.dtype}
            )
        created.meta["val"] = compute_val(self._mode, aten.full.default, created.args, created.kwargs)
        return created


__all__ = ["ExportPass", "PassBase", "PassResult"]
