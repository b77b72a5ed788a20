"""`ExportPass`, a base class for passes that visit a graph node by node, with the same methods as in ExecuTorch."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_aggregate, map_arg
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from edgecore.errors import CompileError
from edgecore.ir.control_flow import COND, MAP, SCAN, WHILE, placeholders
from edgecore.ir.delegate import LoweredBackendModule, call_delegate
from edgecore.ir.graph import compute_val_of, describe, fake_mode, has_result, same_layout, take_graph
from edgecore.ir.torch_compat import FakeTensor, FakeTensorMode, HigherOrderOperator, codegen_of
from edgecore.passes.proxy_value import SYMBOLIC, NodeMetadata, ProxyValue, data_of, inherited, nodes_of

aten = torch.ops.aten

_OF_PYTHON = frozenset({operator.__name__, "_operator", builtins.__name__, math.__name__})
# fmt: off
_ON_SYMBOLS = (
    torch.sym_int, torch.sym_float, torch.sym_ite, torch.sym_max, torch.sym_min, torch.sym_not, torch.sym_sqrt
)
# fmt: on


class ExportPass(PassBase):
    """Base class of passes that visit every node, also in branches and loop bodies, and write a new graph.

    A subclass overrides methods among `placeholder`, `output`, `call_operator`, `call_getitem`, `call_sym`,
    `call_cond`, `call_while`, `call_map`, `call_scan`, `call_delegate`, `call_submodule`, `on_attr`, `inputs`, `call`.
    Each method receives the target, arguments and `meta` of a visited node, and returns the value that later nodes read
    instead of that node: one of the arguments, the result of the same method of `super()`, or the result of one or more
    calls of `super().call_operator`. Values are instances of `ProxyValue`: `value.data` is the fake tensor or the
    number, and `value.node` is the node. Other attributes, such as `value.target`, come from the node.

    A new call with the operator and the arguments of the visited node keeps the name and the `val` (fake tensor) of
    that node. If nothing changes, the graph stays as it is. The methods `requires` and `ensures` check the graph before
    and after the pass.
    """

    fake_tensor_mode: FakeTensorMode | None = None
    """The mode of the graph's fake tensors; set while the pass runs."""

    def call(self, graph_module: GraphModule) -> PassResult:
        """Run the pass over a graph module, and put the new graph into it."""
        self.fake_tensor_mode = fake_mode(graph_module)
        self._copies: list[_Copy] = []
        result = self.call_submodule(graph_module, tuple(self.inputs(graph_module)))
        if result.graph_module is not graph_module:
            take_graph(graph_module, result.graph_module)
        return PassResult(graph_module, result.modified)

    def inputs(self, graph_module: GraphModule) -> Sequence[Any]:
        """Return the inputs with which `call` interprets the graph: fake tensors, other tensors, or numbers."""
        return [node.meta.get("val") for node in placeholders(graph_module)]

    def call_submodule(self, graph_module: GraphModule, inputs: tuple[Any, ...]) -> PassResult:
        """Run the pass over the graph of a branch or loop body, or of the whole graph.

        Args:
            graph_module: The graph. It does not change.
            inputs: The values of the graph's inputs.

        Returns:
            A graph module with the new graph; `graph_module` itself if nothing has changed.
        """
        copy = _Copy(graph_module, [data_of(value) for value in inputs])
        self._copies.append(copy)
        try:
            for node in graph_module.graph.nodes:
                self._visit(copy, node)
        finally:
            self._copies.pop()
        return copy.result()

    def _visit(self, copy: _Copy, node: Node) -> None:
        copy.node = node
        args, kwargs = copy.values((node.args, node.kwargs))
        meta = NodeMetadata(node.meta)
        target: Any = node.target
        by_operator: dict[Any, Any] = {
            operator.getitem: self.call_getitem,
            **{COND: self.call_cond, WHILE: self.call_while, MAP: self.call_map, SCAN: self.call_scan},
        }
        if node.op == "placeholder":
            result = self.placeholder(target, copy.inputs.pop(0) if copy.inputs else None, meta)
        elif node.op == "get_attr":
            result = copy.attribute(target)
            if isinstance(result, ProxyValue):
                self.on_attr(result)
        elif node.op == "output":
            result = self.output(args[0], meta)
        elif node.op != "call_function":
            raise CompileError(f"node {node.name}: an edge graph has no {node.op} nodes; call an operator")
        elif target in by_operator:
            result = by_operator[target](*args, meta)
        elif target is call_delegate:
            result = self.call_delegate(args[0], args[1:], kwargs, meta)
        elif getattr(target, "__module__", None) in _OF_PYTHON or target in _ON_SYMBOLS:
            result = self.call_sym(target, args, meta)
        elif isinstance(target, HigherOrderOperator):
            result = self._fx("call_function", target, args, kwargs, meta)
        else:
            result = self.call_operator(target, args, kwargs, meta)
        copy.read[node] = result

    def on_attr(self, attr: ProxyValue) -> None:
        """Visit an attribute of the graph module that is a tensor."""

    def placeholder(self, name: str, arg: Any, meta: NodeMetadata) -> Any:
        """Add an input with the value `arg` to the new graph. A pass must not change an input's name or shape."""
        copy = self._copies[-1]
        node = copy.add("placeholder", name, copy.node.args, {}, copy.node.name)
        node.meta = {**inherited(meta), "val": copy.node.meta.get("val")}
        return ProxyValue(arg, node)

    def output(self, results: Any, meta: NodeMetadata) -> Any:
        """Add the node that returns the results, which are values nested as in the visited graph."""
        return self._fx("output", "output", (results,), {}, meta)

    def call_operator(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata) -> Any:
        """Add a call of an operator.

        An argument that is a tensor without dims, such as `torch.tensor(2.0)`, becomes a call of `aten.full`.

        Args:
            op: The operator.
            args: Its arguments.
            kwargs: Its keyword arguments.
            meta: The `meta` of the visited call, which the new call inherits.

        Raises:
            CompileError: An argument is a tensor with dims.
        """
        return self._fx("call_function", op, args, kwargs, meta)

    def call_sym(self, target: Callable[..., Any], args: tuple[Any, ...], meta: NodeMetadata) -> Any:
        """Add a call of a Python function on numbers, such as sizes."""
        return self._fx("call_function", target, args, {}, meta)

    def call_getitem(self, value: Any, key: int, meta: NodeMetadata) -> Any:
        """Add a `getitem` call, which selects result `key` of an operator with several results."""
        return self._fx("call_function", operator.getitem, (value, key), {}, meta)

    def call_size_operator(
        self, tensor_proxy: ProxyValue, dim: int, meta: NodeMetadata, *, edge_dialect: bool = False
    ) -> Any:
        """Return the size of a dim as an argument: a number, or a call of `sym_size` for a size known only at run time.

        `edge_dialect` has no effect, because edgecore's edge dialect has ATen's own operators.
        """
        size = tensor_proxy.to_tensor().shape[dim]
        return self.call_operator(aten.sym_size.int, (tensor_proxy, dim), {}, meta) if _symbolic(size) else size

    def call_size_operator_all(
        self, tensor_proxy: ProxyValue, meta: NodeMetadata, *, edge_dialect: bool = False
    ) -> list[Any]:
        """Return the sizes of all dims as `call_size_operator` does."""
        return [self.call_size_operator(tensor_proxy, dim, meta) for dim in range(tensor_proxy.to_tensor().dim())]

    def call_cond(
        self, pred: Any, true_fn: GraphModule, false_fn: GraphModule, inputs: Sequence[Any], meta: NodeMetadata
    ) -> Any:
        """Visit the branches, then add the call that selects one of them."""
        branches = [self.call_submodule(branch, tuple(inputs)).graph_module for branch in (true_fn, false_fn)]
        return self._fx("call_function", COND, (pred, *branches, inputs), {}, meta)

    def call_while(
        self,
        cond_fn: GraphModule,
        body_fn: GraphModule,
        carried_inputs: Any,
        additional_inputs: Any,
        meta: NodeMetadata,
    ) -> Any:
        """Visit the condition and the body, then add the loop."""
        inputs = (*carried_inputs, *additional_inputs)
        bodies = [self.call_submodule(body, inputs).graph_module for body in (cond_fn, body_fn)]
        return self._fx("call_function", WHILE, (*bodies, carried_inputs, additional_inputs), {}, meta)

    def call_map(self, f: GraphModule, mapped_args: Any, operands: Any, meta: NodeMetadata) -> Any:
        """Visit the body, then add the loop over slices of `mapped_args`."""
        body = self._body(f, (), mapped_args, operands)
        return self._fx("call_function", MAP, (body, mapped_args, operands), {}, meta)

    def call_scan(self, combine_fn: GraphModule, init: Any, xs: Any, additional_inputs: Any, meta: NodeMetadata) -> Any:
        """Visit the body, then add the loop that carries `init` over slices of `xs`."""
        body = self._body(combine_fn, init, xs, additional_inputs)
        return self._fx("call_function", SCAN, (body, init, xs, additional_inputs), {}, meta)

    def _body(self, body: GraphModule, carried: Any, scanned: Any, captured: Any) -> GraphModule:
        """Visit the body of `map` or `scan`. The values of its slices are the fake tensors of their placeholders."""
        slices = [node.meta["val"] for node in placeholders(body)[len(carried) :][: len(scanned)]]
        visited: GraphModule = self.call_submodule(body, (*carried, *slices, *captured)).graph_module
        return visited

    def call_delegate(
        self, lowered_module: LoweredBackendModule, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata
    ) -> Any:
        """Add a call of a delegate."""
        return self._fx("call_function", call_delegate, (lowered_module, *args), kwargs, meta)

    def _fx(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata) -> Any:
        """Add a node with these arguments to the new graph, and compute the fake tensor of its result."""
        copy, mode = self._copies[-1], self.fake_tensor_mode
        assert mode is not None
        visited = copy.node
        args, kwargs = map_aggregate((tuple(args), dict(kwargs)), self._argument)
        node_args, node_kwargs = nodes_of((args, kwargs))
        is_visited = visited.target is target and visited not in copy.kept
        node = copy.add(kind, target, node_args, node_kwargs, visited.name if is_visited else None)
        node.meta = inherited(meta)
        data, named = map_aggregate(data_of((args, kwargs)), self._fake)
        if kind == "output":
            return ProxyValue(data[0], node)
        if is_visited:
            copy.kept.add(visited)
        if is_visited and "val" in visited.meta and copy.has_same_inputs(visited, data, named):
            value = visited.meta["val"]
        else:
            value = compute_val_of(mode, target, data, named)
        if has_result(node):
            node.meta["val"] = value
        return ProxyValue(value, node)

    def _fake(self, value: Any) -> Any:
        """Return the fake tensor for a tensor that `inputs` returned; return other values unchanged."""
        if isinstance(value, FakeTensor) or not isinstance(value, torch.Tensor):
            return value
        assert self.fake_tensor_mode is not None
        return self.fake_tensor_mode.from_tensor(value, static_shapes=True)

    def _argument(self, value: Any) -> Any:
        """Convert an argument: a node to its value, a module to a `get_attr` node, a tensor to `aten.full`."""
        copy = self._copies[-1]
        if isinstance(value, Node):
            return copy.read.get(value, ProxyValue(value.meta.get("val"), value))
        if isinstance(value, torch.nn.Module):
            return copy.module(value)
        if isinstance(value, SYMBOLIC):
            raise CompileError(
                f"{describe(copy.node)}: a pass gave the size {value}, which is known at run time only, as an "
                "argument; give what call_size_operator returns"
            )
        if not isinstance(value, torch.Tensor):
            return value
        if value.dim():
            raise CompileError(
                f"{describe(copy.node)}: a pass gave a tensor of shape {tuple(value.shape)} as an argument; only a "
                "tensor without dims can be one, so add a buffer to the program"
            )
        meta = NodeMetadata(inherited(copy.node.meta))
        return self._fx("call_function", aten.full.default, ([], value.item()), {"dtype": value.dtype}, meta)


def _symbolic(size: Any) -> bool:
    return isinstance(size, SYMBOLIC)


class _Copy:
    """A graph that is copied node by node.

    Attributes:
        inputs: The values of the inputs that have not been visited yet.
        node: The visited node.
        read: A visited node -> the value that later nodes read in its place.
        kept: The visited nodes whose copies are unchanged.
    """

    def __init__(self, graph_module: GraphModule, inputs: list[Any]) -> None:
        self._graph_module = graph_module
        self._graph = Graph()
        self._graph.set_codegen(codegen_of(graph_module.graph))
        self._attributes: dict[str, Any] = {}
        self.inputs = inputs
        self.read: dict[Node, Any] = {}
        self.kept: set[Node] = set()
        self.node: Node = next(iter(graph_module.graph.nodes))

    def values(self, arguments: Any) -> Any:
        """Return arguments of the visited node with each node replaced by the value that later nodes read for it."""
        return map_arg(arguments, self.read.__getitem__)

    def add(self, op: str, target: Any, args: Any, kwargs: Any, name: str | None) -> Node:
        """Add a node at the end of the new graph, or an input after the other inputs."""
        node = self._graph.create_node(op, target, args, kwargs, name)
        if op == "placeholder" and name:
            node.name = name  # restore the name: torch.fx renames nodes that are named like a builtin, such as `input`
        first = next(later for later in self._graph.nodes if later.op != "placeholder" or later is node)
        if op == "placeholder" and first is not node:
            first.prepend(node)
        return node

    def attribute(self, target: str) -> Any:
        """Return the attribute `target` of the graph module: a module as it is, a tensor as a `ProxyValue`."""
        value: Any = self._graph_module
        for part in target.split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            return value
        node = self.add("get_attr", target, (), {}, self.node.name)
        node.meta = dict(self.node.meta)
        self._attributes[target] = value
        return ProxyValue(node.meta.get("val", value), node)

    def module(self, module: torch.nn.Module) -> ProxyValue:
        """Add a `get_attr` node for a branch, a loop body or a delegate, and keep the module's name if it has one."""
        own = {name: child for name, child in self._graph_module.named_children() if child is module}
        visited = [str(node.target) for node in self.node.all_input_nodes if node.op == "get_attr"]
        name = next(iter(own), next((name for name in visited if name not in self._attributes), "submodule"))
        number = 0
        while self._attributes.get(name, module) is not module:
            number += 1
            name = f"submodule_{number}"
        self._attributes[name] = module
        return ProxyValue(module, self.add("get_attr", name, (), {}, name))

    def has_same_inputs(self, node: Node, args: Any, kwargs: Any) -> bool:
        """Return True if the new arguments have the same layouts as the arguments of the visited node."""
        before = map_arg((node.args, node.kwargs), self._visited_value)
        return _alike(before, (args, kwargs))

    def _visited_value(self, node: Node) -> Any:
        is_module = node.op == "get_attr" and "val" not in node.meta
        return getattr(self._graph_module, str(node.target), None) if is_module else node.meta.get("val")

    def result(self) -> PassResult:
        """Return a graph module with the copied graph, or the original module if both graphs are equal.

        Raises:
            CompileError: The copied graph has other inputs than the original, or returns nothing.
        """
        before, after = placeholders(self._graph_module), self._graph.find_nodes(op="placeholder")
        if [node.name for node in before] != [node.name for node in after]:
            names = [[node.name for node in nodes] for nodes in (before, after)]
            raise CompileError(f"a pass changed the inputs {names[0]} to {names[1]}; it must keep all, in their order")
        if not self._graph.find_nodes(op="output"):
            raise CompileError("a pass removed the output of the graph; `output` must call super().output")
        if _described(self._graph_module.graph) == _described(self._graph) and all(
            getattr(self._graph_module, name, value) is value for name, value in self._attributes.items()
        ):
            return PassResult(self._graph_module, False)
        made = GraphModule(self._attributes, self._graph, type(self._graph_module).__name__)
        made.meta = dict(self._graph_module.meta)
        return PassResult(made, True)


def _described(graph: Graph) -> list[Any]:
    """Return operator, name, arguments and metadata of all nodes except `get_attr` nodes, to compare two graphs."""

    def name(node: Node) -> str:
        return str(node.target) if node.op == "get_attr" else node.name

    def described(node: Node) -> tuple[Any, ...]:
        identities = {key: id(value) for key, value in inherited(node.meta).items()}
        return node.op, node.name, node.target, repr(map_arg((node.args, node.kwargs), name)), identities

    return [described(node) for node in graph.nodes if node.op != "get_attr"]


def _alike(before: Any, after: Any) -> bool:
    if isinstance(before, torch.Tensor) or isinstance(after, torch.Tensor):
        return same_layout(before, after)
    if isinstance(before, (tuple, list)) and isinstance(after, (tuple, list)):
        return len(before) == len(after) and all(_alike(*pair) for pair in zip(before, after, strict=True))
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(_alike(before[key], after[key]) for key in before)
    if isinstance(before, SYMBOLIC) or isinstance(after, SYMBOLIC):
        return type(before) is type(after) and before.node.expr == after.node.expr
    return type(before) is type(after) and bool(before == after)


__all__ = ["ExportPass", "PassBase", "PassResult"]
