"""Raise weight scales that are too small to represent the layer's bias and result scale in integers."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.graph import Editor, calls, edit, fake_mode
from edgecore.ir.op_args import argument
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.lazy_constants import is_lazy
from edgecore.passes.quantized import QuantizationParameters, is_dequantize, is_quantize, parameters_of

aten = torch.ops.aten
# fmt: off
_LAYERS = frozenset({
    aten.conv1d.default, aten.conv1d.padding, aten.conv2d.default, aten.conv2d.padding, aten.conv3d.default,
    aten.conv3d.padding, aten.linear.default, aten.conv_transpose1d.default, aten.conv_transpose2d.input,
    aten.conv_transpose3d.input, aten.convolution.default,
})
# fmt: on
_CLAMPS = frozenset({aten.relu.default, aten.hardtanh.default, aten.relu6.default, aten.clamp.default})
_MAX_BIAS = {torch.int8: 2.0**30, torch.uint8: 2.0**30, torch.uint16: 2.0**30, torch.int16: 2.0**44}
"""Dtype of the input -> the largest integer of a bias: sums have 32 bits, and with int16 at least 46."""

_MIN_RATIO = 2.0**-31
"""Smallest scale of a layer's sums relative to its result's scale: XNNPACK's fixed-point factors are at least 2^-32."""


def fit_scales(program: ExportedProgram) -> ExportedProgram:
    """Raise scales of int8 weights just enough to represent each layer's bias and result scale; return the program.

    A kernel adds the bias to sums of integer products, whose unit is the input's scale times the weight's scale. If all
    weights of a channel, or all values of the input, are very small and the bias is not, then the bias in this unit
    overflows its integer type. In that case the unit is at most 2^-30 of the bias, or of the result's scale, so weights
    with a larger scale give the same result.
    """
    constants = Constants(program)
    with edit(program) as graph_module:
        changes = [_fit(graph_module, node, constants) for node in calls(graph_module) if node.target in _LAYERS]
    if any(changes):
        constants.drop_unused()
    return program


def _fit(graph_module: torch.fx.GraphModule, node: Node, constants: Constants) -> bool:
    """Give a layer a weight with larger scales if the scales are too small; return True if the layer has changed."""
    source, weight = argument(node, "input"), argument(node, "weight")
    values, parameters = _static(source), parameters_of(weight) if is_dequantize(weight) else None
    if values is None or parameters is None or parameters.dtype != torch.int8 or values.dtype not in _MAX_BIAS:
        return False
    tensors = [
        weight.args[0],
        *(number for number in (parameters.scale, parameters.zero_point) if isinstance(number, Node)),
    ]
    if not all(constants.has(tensor) and not is_lazy(constants.stored(tensor)) for tensor in tensors):
        return False
    scales = _numbers(parameters.scale, constants)
    needed = _needed(node, values, constants)
    if needed is None or _numbers(parameters.zero_point, constants).any():
        return False
    needed = needed.max() if parameters.axis is None else needed
    if needed.dim() and needed.shape != scales.shape and needed.numel() != 1:
        return False  # unsupported: a transposed layer with groups has one scale for several output channels
    # Raise the scales by 2^-20 more than needed, so that they are large enough even after rounding to float32.
    raised = torch.maximum(scales, needed * (1 + 2.0**-20))
    if not (scales < needed).any():
        return False
    shape = [1] * weight.meta["val"].dim()
    if parameters.axis is not None:
        shape[parameters.axis] = -1
    integers = (constants.get(weight.args[0]).double() * (scales / raised).reshape(shape)).round().to(torch.int8)
    editor = Editor(graph_module, node, fake_mode(graph_module))
    arguments = list(weight.args)
    arguments[0] = constants.add(f"{weight.args[0].name}_fitted", integers, weight.args[0])
    if isinstance(parameters.scale, Node):
        scale = raised.to(constants.get(parameters.scale).dtype)
        arguments[1] = constants.add(f"{parameters.scale.name}_fitted", scale, parameters.scale)
    else:
        arguments[1] = float(raised)
    fitted = editor.call(weight.target, *arguments, **weight.kwargs)
    node.replace_input_with(weight, fitted)
    return True


def _static(value: Any) -> QuantizationParameters | None:
    """Return the quantization parameters of a value that is dequantized with a single scale; None for other values."""
    parameters = parameters_of(value) if isinstance(value, Node) and is_dequantize(value) else None
    return parameters if parameters is not None and parameters.is_per_tensor and parameters.scale else None


def _needed(node: Node, source: QuantizationParameters, constants: Constants) -> torch.Tensor | None:
    """Return the smallest allowed scales of a layer's weight in float64: one per output channel, or a single one."""
    needed = torch.zeros(1, dtype=torch.float64)
    bias = argument(node, "bias")
    if bias is not None:
        numbers = _real(bias, constants)
        if numbers is None:
            return None
        needed = numbers.abs() / _MAX_BIAS[source.dtype]
    result = node
    while len(result.users) == 1 and next(iter(result.users)).target in _CLAMPS:
        result = next(iter(result.users))
    readers = [parameters_of(user) for user in result.users if is_quantize(user)]
    steps = [reader.scale for reader in readers if reader is not None and not isinstance(reader.scale, Node)]
    if steps:
        needed = needed.clamp(min=max(steps) * _MIN_RATIO)
    needed = needed / float(source.scale)  # type: ignore[arg-type]  # `_static` returns only scales that are numbers
    return torch.as_tensor(needed)


def _real(bias: Node, constants: Constants) -> torch.Tensor | None:
    """Return the numbers of a constant bias, dequantized if necessary; None for other biases."""
    parameters = parameters_of(bias) if is_dequantize(bias) else None
    source: Any = bias if parameters is None else bias.args[0]
    if not constants.has(source) or is_lazy(constants.stored(source)):
        return None
    scale = 1.0 if parameters is None else parameters.scale
    if isinstance(scale, Node) and not constants.has(scale):
        return None
    return constants.get(source).double() * _numbers(scale, constants)


def _numbers(value: float | Node, constants: Constants) -> torch.Tensor:
    return constants.get(value).double() if isinstance(value, Node) else torch.tensor(value, dtype=torch.float64)
