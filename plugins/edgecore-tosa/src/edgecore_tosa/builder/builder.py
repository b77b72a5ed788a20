"""Build a TOSA graph: its tensors, constants and operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore.sdk import argument, is_dequantize, is_quantize
from edgecore_tosa.graph import NUMPY, Array, Graph, Operator, Tensor, encode
from edgecore_tosa.quantization.parameters import Parameters
from edgecore_tosa.quantization.scales import LIMITS, Quantization, multiplier_and_shift
from edgecore_tosa.schema import ATTRIBUTES, DType, NanMode, Op, Rescale, Rounding, Transpose
from edgecore_tosa.spec import TosaSpec

NHWC = (0, 2, 3, 1)
"""Memory order of an image's dims; the model's order is NCHW."""

DTYPES = {
    torch.bool: DType.BOOL,
    torch.int8: DType.INT8,
    torch.int16: DType.INT16,
    torch.int32: DType.INT32,
    torch.float32: DType.FP32,
    torch.float16: DType.FP16,
    torch.bfloat16: DType.BF16,
}


@dataclass(frozen=True)
class Value:
    """A value of the model as it is stored in the TOSA graph: with dims in any order, and perhaps quantized.

    Attributes:
        tensor: The tensor of the TOSA graph that holds the elements.
        order: For each dim of the tensor, the corresponding dim of the model's value.
        quantization: The quantization parameters; None for floating point, booleans and plain integers.
        hidden: Boolean array that broadcasts to the model's value: True for elements that count as minus infinity,
            whatever the tensor holds; None if there are no such elements. Only a softmax may read a value with hidden
            elements.
    """

    tensor: Tensor
    order: tuple[int, ...]
    quantization: Quantization | None = None
    hidden: Array | None = field(default=None, compare=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the model's value, in the model's order of dims."""
        return tuple(self.tensor.shape[self.order.index(dim)] for dim in range(len(self.order)))

    @property
    def zero_point(self) -> int:
        """The zero point of the value's quantization; 0 if the value is not quantized."""
        return 0 if self.quantization is None else self.quantization.zero_point

    def axis(self, dim: int) -> int:
        """Return the tensor's dim that corresponds to dim `dim` of the model's value; `dim` may be negative."""
        return self.order.index(dim % len(self.order))

    def in_order(self, array: Array) -> Array:
        """Transpose an array, which broadcasts to the model's value, to the dim order of the tensor."""
        return array.reshape((1,) * (len(self.order) - array.ndim) + array.shape).transpose(self.order)

    def permuted(self, dims: Sequence[int]) -> Value:
        """Permute the dims: dim i of the result is dim `dims[i]`. Only `order` changes, not the tensor's memory."""
        return Value(self.tensor, tuple(dims.index(dim) for dim in self.order), self.quantization)


_MAX_FACTOR = 2.0**16
"""Upper limit for a RESCALE factor. With a factor of 2**16, every integer except 0 already saturates a result of 8 or
16 bits, so larger factors give the same results."""


class Builder:
    """Writes the TOSA operators of a partition, node by node.

    Each value keeps the dim order in which its operator computed the value. It is transposed only for outputs of the
    partition and for operators that need another order, at most once per order. So convolutional networks have few
    transposes.

    Attributes:
        spec: The TOSA profile to write for.
        graph: The operators written so far.
        values: The value of each node that has been lowered.
        parameters: The quantization parameters of the nodes.
        node: The node that is being lowered.
    """

    def __init__(self, spec: TosaSpec, parameters: Parameters, constant: Callable[[Any], torch.Tensor | None]) -> None:
        self.spec = spec
        self.graph = Graph()
        self.values: dict[Node, Value] = {}
        self.parameters = parameters
        self.node: Node | None = None
        self._constant_of = constant
        self._constants: dict[tuple[DType, tuple[int, ...], bytes], Tensor] = {}
        self._real: dict[Value, Value] = {}
        self._transposed: dict[tuple[Tensor, tuple[int, ...]], Tensor] = {}

    # The next methods return values of the model.

    def value(self, node: Any) -> Value:
        """Return the value of a node, dequantized if the current node computes in floating point.

        The first call for a constant adds the constant to the graph.
        """
        if node not in self.values:
            tensor = self.constant_of(node)
            assert tensor is not None
            dtype = DTYPES[tensor.dtype]
            self.values[node] = Value(self.constant(tensor.numpy(), dtype), tuple(range(tensor.dim())))
        value = self.values[node]
        return value if self.node is None or self.computes_with_integers else self.real(value)

    @property
    def computes_with_integers(self) -> bool:
        """False if the current node computes in floating point, so that its quantized inputs must be dequantized."""
        assert self.node is not None
        is_border = is_quantize(self.node) or is_dequantize(self.node)
        return not self.spec.floating or is_border or self.quantization is not None

    def real(self, value: Value) -> Value:
        """Dequantize a value: (integer - zero point) * scale; return a value without quantization unchanged."""
        q = value.quantization
        if q is None:
            return value
        if value.tensor.data is not None:
            constant = q.real(self.read(value).data)  # type: ignore[arg-type]  # a constant's `data` is not None
            return Value(self.constant(constant, DType.FP32), tuple(range(len(value.order))))
        if value not in self._real:
            numbers = self.emit(Op.CAST, [value.tensor], value.tensor.shape, DType.FP32)
            if q.zero_point:
                numbers = self.compute(Op.SUB, numbers, float(q.zero_point))
            self._real[value] = Value(self.compute(Op.MUL, numbers, q.step), value.order)
        return self._real[value]

    def constant_of(self, node: Any) -> torch.Tensor | None:
        """Return the PyTorch tensor of a constant node; None for other nodes and for numbers."""
        return self._constant_of(node) if isinstance(node, Node) else None

    def argument(self, name: str) -> Any:
        """Return the argument `name` of the current node; its default if the node omits it."""
        assert self.node is not None
        return argument(self.node, name)

    def input(self, name: str = "self") -> Value:
        """Return the value of a tensor argument of the current node."""
        return self.value(self.argument(name))

    def operand(self, name: str) -> Value:
        """Return the value of an argument of the current node that is a tensor, a number or a floating-point constant.

        If the result of the current node is quantized, a number or constant is quantized to 16 bits with zero point 0.
        """
        argument = self.argument(name)
        real = self.real_constant(argument)
        if real is None or (isinstance(argument, Node) and self.parameters.of(argument) is not None):
            return self.value(argument)
        return self.real_operand(real)

    def real_operand(self, real: Array) -> Value:
        """Return floating-point constants as an operand: quantized if the current node's result is quantized."""
        order = tuple(range(real.ndim))
        if self.quantization is None:
            return Value(self.constant(real, self.dtype_of_operands), order)
        largest = float(np.abs(real).max())
        symmetric = Quantization(largest / 32767 or 1.0, 0, DType.INT16, None, -32767, 32767)
        return Value(self.constant(np.rint(real / symmetric.step), DType.INT16), order, symmetric)

    def real_constant(self, argument: Any) -> Array | None:
        """Return the dequantized value of an argument that is a number or a constant; None for other arguments."""
        if isinstance(argument, (int, float)):
            return np.array(float(argument))
        tensor = self.constant_of(argument)
        if tensor is not None:
            return tensor.detach().to(torch.float64).numpy()
        value = self.values.get(argument) if isinstance(argument, Node) else None
        if value is None or value.tensor.data is None or value.quantization is None:
            return None
        return value.quantization.real(self.read(value).data)  # type: ignore[arg-type]  # `data` is not None here

    @property
    def dtype_of_operands(self) -> DType:
        """The dtype of the current node's first tensor argument that is not boolean; BOOL if all are boolean."""
        assert self.node is not None
        vals = [source.meta["val"] for source in self.node.all_input_nodes]
        return next((DTYPES[val.dtype] for val in vals if val.dtype != torch.bool), DType.BOOL)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the current node's result."""
        assert self.node is not None
        return tuple(self.node.meta["val"].shape)

    @property
    def quantization(self) -> Quantization | None:
        """The quantization parameters of the current node's result; None if it is not quantized."""
        assert self.node is not None
        return self.parameters.of(self.node)

    # The next methods add tensors and operators to the TOSA graph.

    def constant(self, array: Array, dtype: DType) -> Tensor:
        """Return a constant tensor of the graph; equal constants share one tensor."""
        array = np.array(array, NUMPY[dtype], order="C")
        key = (dtype, array.shape, encode(array, dtype))
        if key not in self._constants:
            self._constants[key] = Tensor(array.shape, dtype, array)
        return self._constants[key]

    def number(self, number: float, dtype: DType, rank: int = 1) -> Tensor:
        """Return a constant of one element, with `rank` dims of size 1."""
        return self.constant(np.full((1,) * rank, number, NUMPY[dtype]), dtype)

    def sizes(self, sizes: Sequence[int]) -> Tensor:
        """Return a list of sizes as a constant of TOSA's type SHAPE, which RESHAPE and SLICE read."""
        return self.constant(np.array(sizes, np.int64).reshape(-1), DType.SHAPE)

    def emit(
        self, op: Op, inputs: Sequence[Tensor], shape: Sequence[int], dtype: DType, attribute: Any = None
    ) -> Tensor:
        """Add an operator of the current node to the graph, and return the tensor of its result."""
        output = Tensor(tuple(shape), dtype)
        self.graph.operators.append(Operator(op, attribute or ATTRIBUTES[op](), list(inputs), output, self.node))
        return output

    def compute(self, op: Op, *operands: Tensor | float, shift: int = 0) -> Tensor:
        """Add an elementwise operator to the graph, and return the tensor of its result.

        Args:
            op: The TOSA operator, such as `Op.ADD`.
            *operands: Tensors of equal rank, or numbers.
            shift: For MUL of int32: number of bits by which the result is shifted right.
        """
        tensors = [operand for operand in operands if isinstance(operand, Tensor)]
        like = tensors[-1]
        inputs = [
            operand if isinstance(operand, Tensor) else self.number(operand, like.dtype, like.rank)
            for operand in operands
        ]
        shape = np.broadcast_shapes(*(tensor.shape for tensor in inputs))
        dtype = DType.BOOL if op in (Op.EQUAL, Op.GREATER, Op.GREATER_EQUAL) else like.dtype
        if op == Op.MUL:
            inputs.append(self.number(shift, DType.INT8))
        if op == Op.NEGATE:
            inputs += [self.number(0, like.dtype)] * 2
        nan = op in (Op.MAXIMUM, Op.MINIMUM)
        return self.emit(op, inputs, shape, dtype, ATTRIBUTES[op](NanMode.PROPAGATE) if nan else None)

    def reduce(self, op: Op, tensor: Tensor, *axes: int) -> Tensor:
        """Reduce each dim of `axes` to size 1 with a reduction operator, and return the result."""
        for axis in axes:
            if tensor.shape[axis] == 1:
                continue
            shape = list(tensor.shape)
            shape[axis] = 1
            nan = (NanMode.PROPAGATE,) if op in (Op.REDUCE_MAX, Op.REDUCE_MIN) else ()
            tensor = self.emit(op, [tensor], shape, tensor.dtype, ATTRIBUTES[op](axis, *nan))
        return tensor

    def transpose(self, tensor: Tensor, perms: Sequence[int]) -> Tensor:
        """Transpose: dim i of the result is dim `perms[i]` of `tensor`."""
        perms = tuple(perms)
        if perms == tuple(range(tensor.rank)):
            return tensor
        if tensor.data is not None:
            return self.constant(tensor.data.transpose(perms), tensor.dtype)
        shape = tuple(tensor.shape[dim] for dim in perms)
        key = (tensor, perms)
        if key not in self._transposed:
            kept = [dim for dim in perms if tensor.shape[dim] != 1]
            if kept == sorted(kept):  # the transpose only moves dims of size 1, so RESHAPE suffices
                self._transposed[key] = self.reshape(tensor, shape)
            else:
                attribute = Transpose(list(perms))
                self._transposed[key] = self.emit(Op.TRANSPOSE, [tensor], shape, tensor.dtype, attribute)
        return self._transposed[key]

    def read(self, value: Value, order: Sequence[int] | None = None) -> Tensor:
        """Return the tensor of a value, transposed to the dim order `order`; None stands for the model's order."""
        order = tuple(range(len(value.order))) if order is None else tuple(order)
        return self.transpose(value.tensor, [value.order.index(dim) for dim in order])

    def reshape(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """Return a tensor of shape `shape` with the same elements in memory order; add RESHAPE if necessary."""
        shape = tuple(shape)
        if shape == tensor.shape:
            return tensor
        if tensor.data is not None:
            return self.constant(tensor.data.reshape(shape), tensor.dtype)
        return self.emit(Op.RESHAPE, [tensor, self.sizes(shape)], shape, tensor.dtype)

    def slice(self, tensor: Tensor, start: Sequence[int], shape: Sequence[int]) -> Tensor:
        """Return the part of a tensor that begins at the indices `start` and has the shape `shape`.

        If the tensor has more than 4 dims, adjacent dims that the slice does not cut are merged first, because Arm's
        compiler Vela 5.2 crashes on some slices of 5 dims. For example, the slice at [1, 0, 0, 0, 0] of (2, 2, 8, 5, 6)
        becomes the slice at [1, 0] of (2, 480).
        """
        if tuple(shape) == tensor.shape:
            return tensor
        whole = tensor.shape
        if tensor.rank > 4:
            groups = [
                list(dims)
                for _, dims in groupby(range(tensor.rank), lambda dim: -1 if shape[dim] == whole[dim] else dim)
            ]
            tensor = self.reshape(tensor, [prod(whole[dim] for dim in dims) for dims in groups])
            start = [start[dims[0]] for dims in groups]
            sizes = [prod(shape[dim] for dim in dims) for dims in groups]
        else:
            sizes = list(shape)
        part = self.emit(Op.SLICE, [tensor, self.sizes(start), self.sizes(sizes)], sizes, tensor.dtype)
        return self.reshape(part, shape)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Concatenate tensors along a dim."""
        if len(tensors) == 1:
            return tensors[0]
        shape = list(tensors[0].shape)
        shape[axis] = sum(tensor.shape[axis] for tensor in tensors)
        return self.emit(Op.CONCAT, tensors, shape, tensors[0].dtype, ATTRIBUTES[Op.CONCAT](axis))

    def rescale(
        self, tensor: Tensor, scale: float | Sequence[float], dtype: DType, input_zero: int = 0, output_zero: int = 0
    ) -> Tensor:
        """Return round((tensor - input_zero) * scale) + output_zero, saturated to `dtype`.

        Args:
            tensor: Integers.
            scale: The factor, or a factor per index of the last dim.
            dtype: The type of the result.
            input_zero: The zero point of `tensor`, 0 unless it is int8.
            output_zero: The zero point of the result, 0 unless it is int8.
        """
        if tensor.data is not None:
            scaled = np.rint((tensor.data.astype(np.float64) - input_zero) * np.array(scale)) + output_zero
            return self.constant(np.clip(scaled, *LIMITS[dtype]), dtype)
        is_cast = tensor.dtype in (DType.INT8, DType.INT16) and dtype == DType.INT32
        if is_cast and scale == 1.0 and not input_zero and not output_zero:
            # Emit CAST, because an NPU needs one operation for CAST, but two for RESCALE.
            return self.emit(Op.CAST, [tensor], tensor.shape, dtype)
        # For INT48, RESCALE's multiplier has only 15 bits; an error of up to 2^-15 is 0.004 steps of the largest int8
        # weight. Two operators would be exact: a RESCALE by a power of two to INT32, and a RESCALE with 31 bits. But
        # Arm's compiler Vela then estimates 3 to 5 times the cycles for a network, because INT32 results go to memory,
        # and the SQNR of 55 dB rises by only 0.02 dB.
        bits = 16 if tensor.dtype == DType.INT48 else 32
        pairs = [multiplier_and_shift(factor, bits) for factor in (scale if isinstance(scale, Sequence) else [scale])]
        multipliers, shifts = (np.array(column) for column in zip(*pairs, strict=True))
        attribute = Rescale(bits == 32, Rounding.SINGLE_ROUND, isinstance(scale, Sequence))
        inputs = [
            tensor,
            self.constant(multipliers, DType.INT32 if bits == 32 else DType.INT16),
            self.constant(shifts, DType.INT8),
            self.number(input_zero, tensor.dtype),
            self.number(output_zero, dtype),
        ]
        return self.emit(Op.RESCALE, inputs, tensor.shape, dtype, attribute)

    # The next methods change the scale of results.

    def finish(self, tensor: Tensor, scale: float | Sequence[float], order: Sequence[int]) -> Value:
        """Scale a tensor to the quantization of the current node's result; keep it if the result is not quantized.

        Args:
            tensor: Accumulators with zero point 0 if the result is quantized, else the floating-point result.
            scale: The scale of the accumulators, or one per index of the last dim.
            order: The dim order of `tensor`.
        """
        result = self.quantization
        if result is None:
            return Value(tensor, tuple(order))
        factors = [unit / result.step for unit in (scale if isinstance(scale, Sequence) else [scale])]
        # Scale factors above 1 (INT48) or 2**8 (INT32) occur if the calibrated range of a result is only a few steps of
        # the accumulator, for example if the result is always 0. Clamp the accumulators first, because RESCALE's
        # products must fit into 32 bits before they saturate.
        if tensor.dtype == DType.INT48 and max(factors) > 1:
            first = [min(factor, 1.0) for factor in factors]
            tensor = self.rescale(tensor, first if isinstance(scale, Sequence) else first[0], DType.INT32)
            factors = [factor / before for factor, before in zip(factors, first, strict=True)]
        if tensor.dtype == DType.INT32 and max(factors) > 2**8:
            factors = [min(factor, _MAX_FACTOR) for factor in factors]
            limits = np.ceil(2**16 / np.array(factors)).reshape((1,) * (tensor.rank - 1) + (-1,))
            tensor = self.compute(Op.MINIMUM, tensor, self.constant(limits, DType.INT32))
            tensor = self.compute(Op.MAXIMUM, tensor, self.constant(-limits, DType.INT32))
        scales = factors if isinstance(scale, Sequence) else factors[0]
        return Value(self.rescale(tensor, scales, result.dtype, 0, result.zero_point), tuple(order), result)

    def convert(self, value: Value, quantization: Quantization | None) -> Value:
        """Rescale a value to other quantization parameters; return a value that is not quantized unchanged."""
        old = value.quantization
        if quantization is None or old is None or quantization.is_near(old):
            return value
        factor = min(old.step / quantization.step, _MAX_FACTOR)
        if value.tensor.data is not None:
            array = np.rint(old.real(value.tensor.data) / quantization.step) + quantization.zero_point
            clipped = np.clip(array, quantization.low, quantization.high)
            return replace(value, tensor=self.constant(clipped, quantization.dtype), quantization=quantization)
        tensor = self.rescale(value.tensor, factor, quantization.dtype, old.zero_point, quantization.zero_point)
        return replace(value, tensor=tensor, quantization=quantization)
