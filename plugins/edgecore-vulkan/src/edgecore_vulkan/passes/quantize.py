"""Fuse dequantize, operator and quantize calls into integer calls; keep integer weights of other linear layers.

A convolution or linear layer with static int8 inputs and outputs becomes an `et_vk.q8ta_*` call. Other linear layers
keep their integer weights: 4 bits in `et_vk.linear_q4gsw`, or in `et_vk.linear_dq8ca_q4gsw` if the input is quantized
per row at run time; 8 bits in `aten._weight_int8pack_mm`. All other operators compute in floating point between
dequantize and quantize calls.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from edgecore_vulkan.graph.calls import Argument, Call, CallGraph, SizeValue, TensorValue, has_effect
from edgecore_vulkan.graph.integer_weights import ALIGNMENT, IntegerWeight, aligned
from edgecore_vulkan.graph.profile import Profile

_QUANTIZE = "quantized_decomposed.quantize_per_tensor.default"
_DEQUANTIZE = "quantized_decomposed.dequantize_per_tensor.default"
_QUANTIZE_ROWS = "quantized_decomposed.quantize_per_token.default"
_DEQUANTIZE_ROWS = "quantized_decomposed.dequantize_per_token.default"
_CHOOSE_ROWS = "quantized_decomposed.choose_qparams_per_token_asymmetric.default"
_SLICE = "aten.slice_copy.Tensor"
_VIEW, _ADD, _RELU = "aten.view_copy.default", "aten.add.Tensor", "aten.relu.default"
_LIMITED = {_RELU, "aten.clamp.default", "aten.hardtanh.default"}
_CONVOLUTION, _LINEAR = "aten.convolution.default", "aten.linear.default"

Producers = dict[TensorValue | SizeValue, Call]


def weight_problem(weight: IntegerWeight | None, profile: Profile) -> str | None:
    """Return why no operator of the delegate supports the integer weight of a linear layer; None if one does."""
    if weight is None:
        return "weights with zero points, or of another type than int8"
    if weight.axis != 0:
        return "a scale for each column of the weights"
    if _fits_4_bits(weight, profile) or weight.groups == 1:
        return None
    bits = 4 if weight.has_4_bits else 8
    return f"weights of {bits} bits in groups of {weight.integers.shape[1] // weight.groups}"


def size_problem(weight: IntegerWeight | None, profile: Profile) -> str | None:
    """Return why a linear layer with this weight does not support a symbolic number of rows, or None if it does."""
    if weight is None or not profile.is_stock or not _fits_4_bits(weight, profile):
        return None
    return "symbolic sizes, which executorch 1.5 does not support with weights of 4 bits"


def _fits_4_bits(weight: IntegerWeight, profile: Profile) -> bool:
    """Return True if `et_vk.linear_q4gsw` supports a weight; ExecuTorch's delegate needs columns in whole vectors."""
    columns = weight.integers.shape[1]
    group = columns // weight.groups
    return weight.has_4_bits and not (profile.is_stock and (columns % ALIGNMENT or group % ALIGNMENT))


def quantize(graph: CallGraph, profile: Profile) -> None:
    """Fuse quantized calls of `graph` in place; calls whose results are no longer read stay in the graph."""
    _Fusion(graph, profile).run()


@dataclass(frozen=True)
class _Parameters:
    scale: float
    zero_point: int

    @classmethod
    def of(cls, call: Call) -> _Parameters:
        return cls(float(call.args[1]), int(call.args[2]))

    def implies(self, low: float | None, high: float | None) -> bool:
        """Return True if the int8 range lies within [low, high] (up to rounding), so a clamp changes nothing."""
        smallest, largest = (-128 - self.zero_point) * self.scale, (127 - self.zero_point) * self.scale
        return (low is None or smallest >= low) and (high is None or largest <= high * (1 + 1e-6))


class _Fusion:
    def __init__(self, graph: CallGraph, profile: Profile) -> None:
        self.graph = graph
        self.profile = profile
        self.calls: list[Call] = []
        self.producers: Producers = graph.producers()
        self.uses: Counter[TensorValue] = graph.uses()
        self.rows: dict[tuple[TensorValue, tuple[int, ...]], list[TensorValue]] = {}

    def run(self) -> None:
        for call in self.graph.calls:
            if call.name == _QUANTIZE:
                self.calls.append(self._static(call) or call)
            else:
                self.calls.append(call)
        self.graph.calls, self.calls = self.calls, []
        needed = self._needed()
        for call in self.graph.calls:
            if call.name == _LINEAR and call.args[1].weight is not None and call in needed:
                self._linear(call)
            else:
                self.calls.append(call)
        self.graph.calls = self.calls

    def _needed(self) -> set[Call]:
        """Return the calls whose results are read, without those that only prepared weights of replaced layers."""
        read: set[Any] = set(self.graph.outputs)
        calls: set[Call] = set()
        for call in reversed(self.graph.calls):
            if has_effect(call) or any(output in read for output in call.outputs):
                calls.add(call)
                read.update(call.inputs())
        return calls

    def _only_reader(self, value: TensorValue, names: set[str]) -> Call | None:
        """Return the call that computes `value`, if its name is in `names` and nothing else reads `value`."""
        call = self.producers.get(value)
        return call if call is not None and call.name in names and self.uses[value] == 1 else None

    def _static(self, end: Call) -> Call | None:
        """Return an integer call that replaces the quantize call `end` and the calls before it; None if none can."""
        target = _Parameters.of(end)
        chain = [end]
        activation = "none"
        limited = self._only_reader(end.args[0], _LIMITED)
        if limited is not None:
            low, high = (0.0, None) if limited.name == _RELU else limited.args[1:3]
            if not target.implies(low, high):
                if low != 0 or high is not None:
                    return None
                activation = "relu"
            chain.append(limited)
        for build, name in (
            (self._layer, _CONVOLUTION),
            (self._layer, _LINEAR),
            (self._static_linear, _VIEW),
            (self._sum, _ADD),
        ):
            source = self._only_reader(chain[-1].args[0], {name})
            if source is not None:
                call = build(source, target, activation)
                if call is None:
                    return None
                call.outputs = end.outputs
                call.nodes = (*source.nodes, *(node for member in reversed(chain) for node in member.nodes))
                self.producers[end.output] = call
                return call
        return None

    def _integers(self, value: TensorValue) -> tuple[TensorValue, _Parameters] | None:
        """Return the int8 tensor that `value` is dequantized from, and its parameters; None for other tensors."""
        call = self.producers.get(value)
        return (call.args[0], _Parameters.of(call)) if call is not None and call.name == _DEQUANTIZE else None

    def _static_linear(self, view: Call, target: _Parameters, activation: str) -> Call | None:
        """Return an integer call for a linear layer between views that flatten and restore the leading dims."""
        layer = self._only_reader(view.args[0], {_LINEAR})
        flat = None if layer is None else self.producers.get(layer.args[0])
        if layer is None or flat is None or flat.name != _VIEW:
            return None
        rows = flat.args[0]
        if rows.shape[:-1] != view.output.shape[:-1] or rows.shape[-1] != layer.args[0].shape[-1]:
            return None
        return self._layer(layer, target, activation, rows)

    def _layer(self, layer: Call, target: _Parameters, activation: str, rows: TensorValue | None = None) -> Call | None:
        source = self._integers(rows or layer.args[0])
        kernel, bias = layer.args[1:3]
        weight = kernel.weight
        if source is None or weight is None or weight.axis != 0 or weight.groups != 1:
            return None
        if bias is not None and bias.constant is None:
            return None
        shape = weight.integers.shape
        form: _Form | None = _convolution_form(layer, weight.integers, self.profile)
        if layer.name == _LINEAR:
            form = None if self.profile.is_stock and shape[1] % ALIGNMENT else ("q8ta_linear", weight.integers, [])
        if form is None:
            return None
        name, matrix, window = form
        value, parameters = source
        if name == "q8ta_linear" and prod(value.shape[:-1]) == 1:
            name = "q8ta_linear_gemv"
        sums = weight.integers.flatten(1).sum(1, dtype=torch.int32)
        scales = weight.scales[:, 0].float()
        constants = [_constant(matrix), *(_constant(aligned(tensor)) for tensor in (sums, scales))]
        addend = None if bias is None else _constant(aligned(bias.constant))
        args: list[Argument] = [
            value,
            parameters.scale,
            parameters.zero_point,
            *constants,
            target.scale,
            target.zero_point,
            addend,
        ]
        return Call(f"et_vk.{name}.default", [*args, *window, activation], [])

    def _sum(self, call: Call, target: _Parameters, activation: str) -> Call | None:
        first, second = (self._integers(value) for value in call.args[:2])
        if first is None or second is None or first[0].shape != second[0].shape or activation != "none":
            return None
        (a, of_a), (b, of_b) = first, second
        numbers = [of_a.scale, of_a.zero_point, of_b.scale, of_b.zero_point, target.scale, target.zero_point]
        return Call("et_vk.q8ta_add.default", [a, b, *numbers, float(call.args[2])], [])

    def _linear(self, call: Call) -> None:
        """Emit a linear layer with integer weights, whose input is floating point or quantized at run time."""
        x, kernel, bias = call.args
        weight, integers = kernel.weight, kernel.weight.integers
        if not _fits_4_bits(weight, self.profile):
            scales = _constant(weight.scales[:, 0].to(x.dtype))
            self._add_with_bias(call, "aten._weight_int8pack_mm.default", [x, _constant(integers), scales])
            return
        if self.profile.is_stock:
            weight = weight.with_whole_vectors()
        matrix, scales = _constant(weight.nibbles()), _constant(aligned(weight.scales.t().to(x.dtype)))
        addend = None if bias is None else _constant(aligned(bias.constant))
        rest = [scales, integers.shape[1] // weight.groups, addend]
        quantized = self._quantized_rows(x)
        if quantized is None:
            call.name, call.args = "et_vk.linear_q4gsw.default", [x, matrix, *rest]
        else:
            call.name = "et_vk.linear_dq8ca_q4gsw.default"
            call.args = [*quantized, matrix, _sums_of_groups(weight) if self.profile.is_stock else None, *rest]
        self.calls.append(call)
        output, rows = call.output, len(weight.integers)
        if rows != output.shape[-1]:
            call.outputs = [TensorValue((*output.shape[:-1], rows), output.dtype)]
            cut = [call.output, len(output.shape) - 1, 0, output.shape[-1], 1]
            self.calls.append(Call(_SLICE, cut, [output], call.nodes))

    def _add_with_bias(self, call: Call, name: str, args: list[Argument]) -> None:
        bias, output = call.args[2], call.output
        call.name, call.args = name, args
        self.calls.append(call)
        if bias is not None:
            call.outputs = [output.like()]
            self.calls.append(Call(_ADD, [call.output, bias, 1], [output], call.nodes))

    def _quantized_rows(self, x: TensorValue) -> list[TensorValue] | None:
        """Return (rows, scales, zero points) if `x` dequantizes rows that are quantized at run time; None otherwise."""
        view = self.producers.get(x)
        is_flattened = view is not None and view.name == _VIEW
        end = self.producers.get(view.args[0]) if is_flattened and view is not None else view
        if end is None or end.name != _DEQUANTIZE_ROWS or end.output.shape[-1] != x.shape[-1]:
            return None
        begin = self.producers.get(end.args[0])
        if begin is None or begin.name != _QUANTIZE_ROWS or begin.args[1:3] != end.args[1:3]:
            return None
        choose = self.producers.get(begin.args[1])
        if choose is None or choose.name != _CHOOSE_ROWS or choose.outputs != begin.args[1:3]:
            return None
        rows: TensorValue = begin.args[0]
        if choose.args[0] is not rows:
            return None
        key = (rows, x.shape)
        if key not in self.rows:
            if is_flattened and view is not None:
                flat = TensorValue(x.shape, rows.dtype)
                self.calls.append(Call(_VIEW, [rows, view.args[1]], [flat], view.nodes))
                rows = flat
            block: list[Argument] = [1] * (len(x.shape) - 1) + [x.shape[-1]]
            results = [TensorValue(x.shape[:-1], dtype) for dtype in (rows.dtype, torch.int8)]
            args = [rows, "ASYMMETRIC", block, None, -128, 127, None, None, None, False]
            self.calls.append(Call("torchao.choose_qparams_affine.default", args, list(results), choose.nodes))
            self.rows[key] = [rows, *results]
        return self.rows[key]


_Form = tuple[str, torch.Tensor, list[Argument]]
"""Name of a call, its weight matrix, and its window arguments."""


def _convolution_form(layer: Call, integers: torch.Tensor, profile: Profile) -> _Form | None:
    """Return the integer call for a convolution: its name, its weights as the call stores them, and its window."""
    if layer.name != _CONVOLUTION:
        return None
    stride, padding, dilation, is_transposed, _, groups = layer.args[3:]
    channels, in_group, height, width = integers.shape if integers.dim() == 4 else (0, 0, 0, 0)
    if not channels or is_transposed:
        return None
    window: list[Argument] = [[height, width], stride, padding, dilation, groups]
    is_depthwise = in_group == 1 and groups == channels
    if is_depthwise and channels % ALIGNMENT == 0:
        return "q8ta_conv2d_dw", integers[:, 0].permute(1, 2, 0).contiguous(), window
    if profile.is_stock and (is_depthwise or (groups > 1 and channels // groups % ALIGNMENT)):
        return None
    rows = aligned(integers.permute(0, 2, 3, 1).reshape(channels, -1))
    is_plain = height == width == 1 and set(stride) == set(dilation) == {1} and set(padding) == {0}
    return "q8ta_conv2d_pw" if is_plain and groups == 1 else "q8ta_conv2d", rows, window


def _constant(tensor: torch.Tensor) -> TensorValue:
    return TensorValue(tuple(tensor.shape), tensor.dtype, tensor.contiguous())


def _sums_of_groups(weight: IntegerWeight) -> TensorValue:
    """Return sums of the integers of each group as ExecuTorch's delegate reads them: [groups, rows padded to 8]."""
    sums = weight.integers.reshape(*weight.scales.shape, -1).sum(2, dtype=torch.int32).t()
    return _constant(torch.nn.functional.pad(sums, (0, -sums.shape[-1] % (2 * ALIGNMENT))))
