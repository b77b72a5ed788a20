"""Lower the fx graph of a partition to a `Subgraph`, node by node, and fold nodes that read only weights."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.sdk import (
    Constants,
    MutableBuffer,
    argument,
    describe,
    dim_order,
    is_dequantize,
    mutable_buffers,
    parameters_of,
)
from edgecore.sdk.torch_compat import pytree, schema_of
from edgecore_xnnpack.graph.subgraph import (
    FIRST,
    LAST,
    SAME_LAYOUT,
    TO_LAST,
    Alias,
    Array,
    FixedLayouts,
    Layout,
    LayoutConstraint,
    Quantization,
    Shape,
    State,
    Subgraph,
    SubgraphNode,
    SubgraphValue,
)
from edgecore_xnnpack.graph.symbolic_shapes import Sizes
from edgecore_xnnpack.schema import graph as g


class Lowering:
    """Translates the fx graph of a partition to XNNPACK operations, and holds the state of this translation.

    Functions of the operator table (`operators/`) receive the `Lowering` as their first argument, `low`.

    Attributes:
        subgraph: The XNNPACK operations that have been emitted so far.
        node: The fx node that is being lowered.
        sizes: The numbers that this lowering uses for the symbolic sizes, see `symbolic_shapes.py`.
    """

    def __init__(self, constants: Constants, sizes: Sizes, arrays: dict[Any, Any] | None = None) -> None:
        """Start with an empty subgraph; `arrays` is a cache of contiguous weights that lowerings may share."""
        self.subgraph = Subgraph()
        self.node: Node
        self.sizes = sizes
        self._constants = constants
        self._arrays = {} if arrays is None else arrays
        self._tensors: dict[Node, Any] = {}
        self._scales: dict[Node, tuple[Array, int]] = {}
        self._values: dict[Node, Any] = {}
        self._scalars: dict[float, SubgraphValue] = {}
        self._needs_fp32 = False
        self._unread: list[tuple[SubgraphValue, torch.Tensor]] = []
        self._buffers: dict[Node, MutableBuffer] = {}

    def run(self, program: ExportedProgram, table: Any) -> Subgraph:
        """Lower the whole graph.

        Args:
            program: The partition.
            table: Maps each operator to its row of the operator table.

        Raises:
            CompileError: An operator has no row.
        """
        self._buffers = {buffer.node: buffer for buffer in mutable_buffers(program)}
        for node in program.graph.nodes:
            self.node = node
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "output":
                self._outputs(node)
            elif self._fold(node):
                continue
            elif node.target is operator.getitem:
                self._values[node] = self._values[node.args[0]][node.args[1]]
            else:
                row = table.get(node.target)
                if row is None:
                    raise CompileError(f"{describe(node)} is not in XNNPACK's operator table")
                self._values[node] = row.lower(self, node)
        if self._buffers:
            self._drop_unread()
        return self.subgraph

    def probe(self, node: Node, lower: Any) -> Subgraph:
        """Lower a single node with the function `lower`, and return its subgraph.

        The operator table uses this method to check that a lowering does not depend on the values of symbolic sizes.
        """
        for source in node.all_input_nodes:
            self._source(source)
        self.node = node
        results = lower(self, node)
        listed = results if isinstance(results, list) else [results]
        self.subgraph.outputs = [(value, Layout.FIRST) for value in listed if isinstance(value, SubgraphValue)]
        return self.subgraph

    def _source(self, node: Node) -> None:
        """Add an input of the node that `probe` lowers: a weight as a constant, another tensor as a subgraph input."""
        if self._constants.has(node):
            self._tensors[node] = self._constants.get(node)
        elif is_dequantize(node) and all(map(self._constants.has, node.all_input_nodes)):
            for source in node.all_input_nodes:
                self._source(source)
            self._fold(node)
        elif isinstance(node.meta["val"], torch.Tensor):
            self._values[node] = value = self._input(node)
            self.subgraph.inputs.append(value)

    def _input(self, node: Node) -> SubgraphValue:
        """Create the subgraph value of an input: a tensor that comes from outside of the subgraph."""
        val = node.meta["val"]
        return SubgraphValue(self.shape_of(node), layout=layout_of(val), is_position=val.dtype == torch.int64)

    def _placeholder(self, node: Node) -> None:
        if self._constants.has(node):
            self._tensors[node] = self._constants.get(node)
            return
        if not isinstance(node.meta["val"], torch.Tensor):
            self.subgraph.inputs.append(None)
            return
        if node in self._buffers:
            buffer = self._buffers[node]
            self._values[node] = SubgraphValue(self.shape_of(node))
            self.subgraph.states.append(State(buffer.name, self._values[node], buffer.initial))
            return
        readers = [user for user in node.users if is_dequantize(user)]
        value = self._input(node)
        value.quantization = quantization_of(readers[0]) if readers else None
        value.is_fp16 = node.meta["val"].dtype == torch.float16
        self._values[node] = self.emit(g.Convert, [value], value.shape) if value.is_fp16 else value
        self.subgraph.inputs.append(value)

    def _outputs(self, node: Node) -> None:
        results = node.args[0]
        assert isinstance(results, (list, tuple))
        # A delegate cannot return an input, a state, a constant, or the same output twice: return copies of these.
        unavailable: set[SubgraphValue | None] = {*self.subgraph.inputs, *self.subgraph.in_states}
        # Skip the first results: the new contents of mutable buffers, which stay in the delegate's states.
        for result in results[len(self._buffers) :]:
            assert isinstance(result, Node)
            self.node = result  # operations emitted next get this output's dtype and debug handle
            value = self.value(result)
            if result.meta["val"].dtype == torch.float16:
                value = self.emit(g.Convert, [value], value.shape)
                value.is_fp16 = True
            elif value in unavailable or value.constant is not None:
                is_index, value = value.is_index, self.emit(g.Copy, [value], value.shape)
                value.is_index = is_index
            unavailable.add(value)
            self.subgraph.outputs.append((value, layout_of(result.meta["val"])))
        for value, val in self._unread:
            self.subgraph.outputs.append((value, layout_of(val)))
            self.subgraph.unread.append(val)

    def _drop_unread(self) -> None:
        """Remove operations whose results nothing reads; lowering attention over a KV cache leaves such operations."""
        read = {value for value, _ in self.subgraph.outputs}
        kept = []
        for op in reversed(self.subgraph.nodes):
            if op.kind is g.CacheUpdate or op.output in read or op.second in read:
                read.update(op.inputs)
                kept.append(op)
        self.subgraph.nodes = kept[::-1]

    def _fold(self, node: Node) -> bool:
        """If a node reads only weights, compute it at compile time and return True; otherwise return False."""
        sources = node.all_input_nodes
        if not sources or not all(source in self._tensors for source in sources):
            return False
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self._tensors.__getitem__)
        if is_dequantize(node):  # dequantize in float32 even in a float16 model, so that the integers can be recovered
            args, kwargs = pytree.tree_map(_widened, (args, kwargs))
        assert callable(node.target)
        self._tensors[node] = node.target(*args, **kwargs)
        if is_dequantize(node) and not self._has_zero_points(node):
            scale = self.numbers(argument(node, "scales" if "per_channel" in str(node.target) else "scale"))
            scale = scale.astype(np.float32)
            self._scales[node] = (scale if is_grouped(node) else scale.reshape(-1)), bits_of(node)
        return True

    def _has_zero_points(self, node: Node) -> bool:
        """Return True if a weight's dequantize node has zero points other than 0, which XNNPACK does not support."""
        arguments = schema_of(node.target).arguments
        name = next(arg.name for arg in arguments if arg.name.startswith("zero_point"))
        zero_points = argument(node, name)
        return zero_points is not None and bool(np.any(self.numbers(zero_points)))

    def numbers(self, value: Any) -> Any:
        """Return an argument (a number or a constant node) as an array."""
        return np.asarray(self._tensors[value].detach().numpy() if isinstance(value, Node) else value)

    def scales(self, node: Any) -> Array | None:
        """Return the scales by which a constant was dequantized: one in total, one per channel, or one per group.

        Return None if the constant was not dequantized, or has zero points other than 0.
        """
        return self._scales[node][0] if node in self._scales else None

    def bits(self, node: Any) -> int:
        """Return the number of bits, 8 or 4, of a dequantized constant's integers; 8 for other nodes."""
        return self._scales[node][1] if node in self._scales else 8

    def tensor(self, node: Any) -> Any:
        """Return the value of a constant node as a tensor; None if the node is computed at run time."""
        return self._tensors.get(node)

    def array(self, node: Any) -> Array | None:
        """Return the value of a constant node as a float32 array; None if the node is computed at run time."""
        tensor = self.tensor(node)
        return None if tensor is None else np.asarray(tensor.detach().contiguous().numpy(), dtype=np.float32)

    def value(self, node: Any) -> SubgraphValue:
        """Return the subgraph value of a node; the first call creates the value of a constant."""
        if node not in self._values:
            array = self.array(node)
            assert array is not None
            self._values[node] = self.constant(array)
        value = self._values[node]
        assert isinstance(value, SubgraphValue)
        return value

    def has_value(self, node: Node) -> bool:
        """Return True if the node has been lowered; `probe` lowers only one node and its inputs."""
        return node in self._values

    def argument(self, name: str) -> Any:
        """Return an argument of the node by its name in the operator's schema, or the default of this argument."""
        return self.sizes.resolve(argument(self.node, name))

    def input(self) -> SubgraphValue:
        """Return the value of the node's first argument."""
        return self.value(self.node.args[0])

    @property
    def shape(self) -> Shape:
        """Shape of the node's (first) result."""
        return self.shape_of(self.node)

    def shape_of(self, node: Any) -> Shape:
        """Return the shape of a node's (first) result."""
        val = node.meta["val"]
        return self.sizes.of(val[0] if isinstance(val, (tuple, list)) else val)

    def constant(self, array: Any, scales: Array | None = None, channel_dim: int = 0, bits: int = 8) -> SubgraphValue:
        """Create a float32 constant; a number becomes a tensor of rank 1.

        `scales`, `channel_dim` and `bits` describe the quantization of a dequantized weight, see `SubgraphValue`.
        """
        array = self._contiguous(np.asarray(array, dtype=np.float32))
        shape = array.shape or (1,)
        return SubgraphValue(shape, constant=array.reshape(shape), scales=scales, channel_dim=channel_dim, bits=bits)

    def _contiguous(self, array: Array) -> Array:
        """Return a contiguous copy of an array; lowerings for different symbolic sizes share this copy."""
        if array.flags.c_contiguous:
            return array
        key = (array.ctypes.data, array.shape, array.strides)
        if key not in self._arrays:
            # The key has the address of `array`: keep `array` alive, so that no other array gets this address.
            self._arrays[key] = array, np.ascontiguousarray(array)
        copy: Array = self._arrays[key][1]
        return copy

    @contextmanager
    def in_fp32(self) -> Iterator[None]:
        """Keep operations emitted inside this context in fp32, even if the rest of the delegate uses fp16."""
        self._needs_fp32, before = True, self._needs_fp32
        try:
            yield
        finally:
            self._needs_fp32 = before

    def scalar(self, number: float) -> SubgraphValue:
        """Return a constant of one element."""
        if number not in self._scalars:
            self._scalars[number] = self.constant(np.float32(number))
        return self._scalars[number]

    def emit(
        self,
        kind: type,
        inputs: list[SubgraphValue],
        shape: Shape,
        rule: LayoutConstraint = SAME_LAYOUT,
        clamp: tuple[float, float] | None = None,
        quantization: Quantization | None = None,
        **attributes: Any,
    ) -> SubgraphValue:
        """Append an operation to the subgraph.

        Args:
            kind: The node's class in `schema.graph`.
            inputs: Values that the operation reads.
            shape: Shape of the output.
            rule: The layouts (channels first or last) that the operation supports.
            clamp: Lower and upper limit of the output.
            quantization: Scale and zero point of an int8 output.
            attributes: The other fields of the node class.

        Returns:
            The output value of the operation.
        """
        output = SubgraphValue(tuple(shape), quantization=quantization)
        handle = self.node.meta.get("debug_handle")
        handles = tuple(handle) if isinstance(handle, (list, tuple)) else () if handle is None else (handle,)
        is_fp16 = _is_fp16(self.node.meta.get("val"))
        self.subgraph.nodes.append(
            SubgraphNode(
                kind,
                list(inputs),
                output,
                rule,
                attributes,
                clamp,
                handles,
                is_fp16=is_fp16,
                needs_fp32=self._needs_fp32,
            )
        )
        return output

    def emit_with_indices(self, image: SubgraphValue, shape: Shape) -> tuple[SubgraphValue, SubgraphValue]:
        """Emit the maxima over the height of an image of width 1, and the indices of these maxima along the height."""
        maxima = self.emit(g.ArgMaxPooling2d, [image], shape, LAST, pooling_height=image.shape[2], pooling_width=1)
        self.subgraph.nodes[-1].second = indices = SubgraphValue(shape, is_index=True)
        return maxima, indices

    def leave_unread(self, value: SubgraphValue, like: torch.Tensor) -> None:
        """Make `value`, which nothing reads, an additional output of the delegate; it gets the shape of `like`.

        XNNPACK removes an internal value that is never read, but keeps the operator that writes it. This operator then
        crashes.
        """
        self._unread.append((self.reshape(value, self.sizes.of(like)), torch.empty_like(like, dtype=torch.float32)))

    def reshape(self, value: SubgraphValue, shape: Shape) -> SubgraphValue:
        """Reshape `value`, whose elements are in ATen's order of dimensions (channels first).

        The input and the output of the reshape must be channels first; a tensor with a single pixel or channel may
        have either layout, because its bytes are the same in both.
        """
        shape = tuple(shape)
        if shape == value.shape:
            return value
        if value.constant is not None:
            return self.constant(value.constant.reshape(shape))
        sides = [
            None if side.has_layouts and side.has_one_order else Layout.FIRST for side in (value, SubgraphValue(shape))
        ]
        result = self.emit(g.StaticReshape, [value], shape, FixedLayouts(*sides), new_shape=shape)
        result.is_index = value.is_index
        return result

    def permute(self, value: SubgraphValue, order: tuple[int, ...]) -> SubgraphValue:
        """Permute the dimensions of `value` by `order`.

        A permutation from NCHW to NHWC becomes an `Alias` (it only renames dimensions) whose input is an image with
        channels last. The output has the same bytes as that image, so that the layout pass inserts a transpose only if
        the image has channels first. For a permutation from NHWC to NCHW, the output is an image with channels last.
        """
        order = tuple(order)
        if order == tuple(range(len(order))):
            return value
        if value.constant is not None:
            return self.constant(value.constant.transpose(order))
        shape = tuple(value.shape[i] for i in order)
        moved = [i for i in order if value.shape[i] != 1]
        if moved == sorted(moved):  # only dims of size 1 move, so a reshape suffices
            return self.reshape(value, shape)
        if order == (0, 2, 3, 1):
            return self.emit(Alias, [value], shape, FixedLayouts(Layout.LAST, Layout.FIRST))
        if order == (0, 3, 1, 2):
            return self.emit(Alias, [value], shape, FixedLayouts(Layout.FIRST, Layout.LAST))
        return self.emit(g.StaticTranspose, [value], shape, FIRST, perm=order)


def _widened(argument: Any) -> Any:
    """Replace the argument float16, a dequantized tensor's dtype, by float32; return other arguments unchanged."""
    return torch.float32 if argument is torch.float16 else argument


def _is_fp16(val: Any) -> bool:
    first = val[0] if isinstance(val, (list, tuple)) else val
    return isinstance(first, torch.Tensor) and first.dtype == torch.float16


def quantization_of(node: Node) -> Quantization:
    """Return the scale and zero point of a per-tensor quantize or dequantize node."""
    parameters = parameters_of(node)
    assert parameters is not None and parameters.is_per_tensor
    assert isinstance(parameters.scale, (int, float)) and isinstance(parameters.zero_point, int)
    return Quantization(float(parameters.scale), parameters.zero_point)


def is_grouped(node: Node) -> bool:
    """Return True if a dequantize node has one scale per group of columns in each row of a weight matrix."""
    return "per_channel_group" in str(node.target)


def bits_of(node: Node) -> int:
    """Return how many bits the integers of a dequantized weight need: 4 or 8."""
    return 4 if argument(node, "quant_min") >= -8 and argument(node, "quant_max") <= 7 else 8


def layout_of(val: torch.Tensor) -> Layout:
    """Return the layout of a delegate's input or output, as the strides of its `val` imply."""
    return Layout.LAST if dim_order(val) == TO_LAST.get(val.dim()) else Layout.FIRST
