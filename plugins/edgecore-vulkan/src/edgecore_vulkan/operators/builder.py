"""Helpers for the functions in the operator table that lower a node of the model to operator calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import Bounds, MutableBuffer, NodeQuery, OperatorRow, arguments_by_name, is_dequantize, rank, shape
from edgecore.sdk.torch_compat import schema_of
from edgecore_vulkan.graph.calls import Argument, Call, CallGraph, SizeValue, TensorValue
from edgecore_vulkan.graph.integer_weights import evaluated, weight_of
from edgecore_vulkan.graph.profile import Profile

FLOAT = (torch.float32, torch.float16)
INT = (torch.int64, torch.int32)
BOOL = (torch.bool,)
NUMBER = FLOAT + INT
ALL = NUMBER + BOOL

_FEW_WEIGHTS = 16384


def _is_few(value: TensorValue) -> bool:
    return (
        value.constant is not None
        and value.constant.dtype == value.dtype == torch.float32
        and value.elements <= _FEW_WEIGHTS
    )


class Unsupported(Exception):
    """A node cannot be lowered; the message is the reason, such as "alpha is computed"."""


class Query(NodeQuery):
    """An fx node, with the data by which the operator table decides if the delegate supports the node.

    `profile` has the runtime and the options for which the program is compiled.
    """

    profile: Profile = Profile()
    bounds: Bounds
    buffers: Mapping[Any, MutableBuffer] = {}

    def is_constant(self, node: Any) -> bool:
        """Return True for a constant, or for a dequantize node that reads only constants."""
        if super().is_constant(node):
            return True
        return is_dequantize(node) and all(map(super().is_constant, node.all_input_nodes))

    def constant(self, node: Node) -> torch.Tensor:
        """Return the detached tensor of a constant node, or of a dequantize node that reads only constants."""
        tensor = evaluated(node, self.stored)
        return super().constant(node) if tensor is None else tensor

    def stored(self, node: Node) -> torch.Tensor | None:
        """Return the tensor of a constant that the program stores; None for other nodes."""
        return self.constants.get(node) if self.constants.has(node) else None

    def shape(self, val: Any, node: Node) -> tuple[int, ...]:
        """Return the shape of a result `val` of `node`, with symbolic sizes at their upper bounds."""
        return tuple(self.bounds.upper(size, node) for size in val.shape)


class Builder:
    """Writes the operator calls of a partition, node by node.

    Attributes:
        profile: The target of the compilation.
        graph: The calls written so far.
        values: The value of each lowered node; a list for a node with several results.
        constants: The constants of the partition.
        nodes: The nodes of the model that the next calls compute.
    """

    def __init__(
        self,
        profile: Profile,
        constants: Callable[[Node], torch.Tensor | None],
        max_shape: Callable[[Any, Node], tuple[int, ...]],
    ) -> None:
        self.profile = profile
        self.graph = CallGraph()
        self.values: dict[Node, Any] = {}
        self.nodes: tuple[Node, ...] = ()
        self._constants = constants
        self._max_shape = max_shape
        self._scalars: dict[tuple[torch.dtype, str], TensorValue] = {}
        self._weights: dict[Node, TensorValue] = {}

    def value(self, node: Any) -> TensorValue:
        """Return the tensor of a node. The first call for a constant creates its tensor."""
        # `values` has no entry for a constant until a node reads it, and None for a dequantized constant.
        if self.values.get(node) is None:
            constant = self.constant_of(node)
            assert constant is not None
            self.values[node] = self.constant(constant)
        value = self.values[node]
        assert isinstance(value, TensorValue)
        return value

    def constant_of(self, node: Any) -> torch.Tensor | None:
        """Return the PyTorch tensor of a constant node; None for other nodes."""
        if not isinstance(node, Node):
            return None
        constant = self._constants(node)
        return evaluated(node, self._constants) if constant is None else constant

    def weight(self, node: Any) -> TensorValue:
        """Return the weight of a layer; if it is a dequantized constant, keep its integers and scales."""
        if node not in self._weights:
            weight = weight_of(node, self._constants)
            if weight is None:
                return self.value(node) if self.constant_of(node) is None else self.weights_of(node)
            val = node.meta["val"]
            self._weights[node] = TensorValue(tuple(val.shape), val.dtype, weight.integers, weight=weight)
        return self._weights[node]

    def constant(self, tensor: torch.Tensor) -> TensorValue:
        """Return a constant."""
        return TensorValue(tuple(tensor.shape), tensor.dtype, tensor)

    def weights(self, tensor: torch.Tensor) -> TensorValue:
        """Return the tensor of a constant that is the weight or bias of a convolution or linear layer.

        With `force_fp16`, weights of few elements stay float32 in edgecore's delegate: that costs little, and rounding
        them causes about half of a network's error. For ExecuTorch's delegate, `keep_exact` does this.
        """
        value = self.constant(tensor)
        value.is_exact = self.profile.force_fp16 and not self.profile.is_stock and _is_few(value)
        return value

    def keep_exact(self, kernel: TensorValue, bias: TensorValue | None) -> None:
        """Keep a convolution's weight of few elements, and its bias, in float32 for ExecuTorch's delegate.

        The delegate's shader supports float32 weights with float16 inputs, but weight and bias must have the same
        dtype.
        """
        if not (self.profile.is_stock and self.profile.force_fp16 and _is_few(kernel)):
            return
        for value in (kernel, bias):
            if value is not None:
                value.is_exact = True

    def weights_of(self, node: Node) -> TensorValue:
        """Return the tensor of a constant node that is a weight or bias, as `weights` does."""
        constant = self.constant_of(node)
        assert constant is not None
        return self.weights(constant)

    def bias(self, node: Node | None) -> TensorValue | None:
        """Return the tensor of a layer's bias; None if the layer has no bias."""
        if node is None or self.constant_of(node) is None:
            return None if node is None else self.value(node)
        return self.weights_of(node)

    def scalar(self, number: float, like: TensorValue) -> TensorValue:
        """Return a scalar constant in the dtype of `like`; equal numbers share one constant."""
        key = (like.dtype, repr(number))
        if key not in self._scalars:
            self._scalars[key] = self.constant(torch.tensor(number, dtype=like.dtype))
        return self._scalars[key]

    def shape(self, val: Any, node: Node) -> tuple[int, ...]:
        """Return the shape of a result `val` of `node`, with symbolic sizes at their upper bounds."""
        return self._max_shape(val, node)

    def result(self, node: Node, index: int | None = None) -> TensorValue:
        """Create the tensor of a node's result, with the dtype of the result and its maximum shape."""
        val = node.meta["val"] if index is None else node.meta["val"][index]
        return TensorValue(self.shape(val, node), val.dtype)

    def call(self, name: str, args: Sequence[Argument], output: TensorValue | list[TensorValue]) -> Any:
        """Add an operator call to the graph, and return its output."""
        outputs = list(output) if isinstance(output, list) else [output]
        self.graph.calls.append(Call(name, list(args), list(outputs), self.nodes))
        return output

    def sizes(self, sizes: Sequence[Any]) -> list[Argument]:
        """Return sizes as arguments of a call: numbers, and a `SizeValue` for each symbolic size."""
        return [self.size(size) for size in sizes]

    def size(self, size: Any) -> Argument:
        """Return a size as an argument of a call: a number, or the `SizeValue` of an input of the partition."""
        if isinstance(size, int):
            return size
        value = self.values.get(size) if isinstance(size, Node) else None
        if not isinstance(value, SizeValue):
            raise Unsupported(f"bakes {size.meta['val'] if isinstance(size, Node) else size}")
        return value

    def argument(self, argument: Any) -> Argument:
        """Convert an argument of a model's node to an argument of an operator call."""
        if isinstance(argument, Node):
            return self.size(argument) if isinstance(argument.meta["val"], torch.SymInt) else self.value(argument)
        if isinstance(argument, (list, tuple)):
            return [self.argument(item) for item in argument]
        if argument is None or isinstance(argument, (bool, int, float, str)):
            return argument
        return None  # dtypes come from the output; layouts and devices are not needed

    def arguments(self, node: Node, **changed: Argument) -> list[Argument]:
        """Return the arguments of a node as arguments of a call, in the schema's order; `changed` replaces some."""
        values: dict[str, Any] = arguments_by_name(node)
        names = [spec.name for spec in schema_of(node.target).arguments]
        return [changed[name] if name in changed else self.argument(values[name]) for name in names]

    def view(self, value: TensorValue, shape: Sequence[int], sizes: Sequence[Argument] | None = None) -> TensorValue:
        """Emit a view of a tensor with another shape; `sizes` replaces `shape` in the call if sizes are symbolic."""
        output = TensorValue(tuple(shape), value.dtype)
        written = list(shape if sizes is None else sizes)
        result: TensorValue = self.call("aten.view_copy.default", [value, written], output)
        return result


Lower = Callable[[Builder, Node], Any]
"""Type of a function that writes the calls of a node and returns its value, or a list of its values."""

Row = OperatorRow[Lower]
"""A row of the operator table; its `lower` is a `Lower`."""


ONLY_FIRST = "only the first result may be read"
"""Description of the constraint `only_first`."""


def float_row(
    target: Any,
    lower: Lower,
    constraints: str = "",
    check: Any = None,
    keep: bool = False,
    any_dtype: tuple[str, ...] = (),
) -> Row:
    """Return a row of the operator table for floating-point tensors; with `keep`, the operator is not decomposed."""
    return Row(target, FLOAT, constraints, check, keep, lower, any_dtype)


def image_only(query: NodeQuery) -> str | None:
    """Refuse an fx node whose first argument does not have 4 dims."""
    return None if rank(query.node.args[0]) == 4 else f"{rank(query.node.args[0])} dims instead of 4"


def only_first(query: NodeQuery) -> str | None:
    """Refuse an fx node if any result except the first is read."""
    for user in query.node.users:
        if user.target.__name__ == "getitem" and user.args[1] != 0 and user.users:  # type: ignore[union-attr]
            return f"result {user.args[1]} is read"
    return None


def plain(name: str = "", **changed: Any) -> Lower:
    """Return a function that lowers a node to one operator call with the node's arguments.

    Args:
        name: The name of the call; by default the node's operator.
        **changed: Arguments of the call, by name, that replace arguments of the node.
    """

    def lower(b: Builder, node: Node) -> TensorValue:
        output: TensorValue = b.call(name or str(node.target), b.arguments(node, **changed), b.result(node))
        return output

    return lower


def is_static(node: Any) -> bool:
    """Return True if no size of a node's result is symbolic."""
    return all(isinstance(size, int) for size in shape(node))


def is_float(node: Any) -> bool:
    """Return True if a node's result is floating-point."""
    return bool(node.meta["val"].dtype.is_floating_point)
