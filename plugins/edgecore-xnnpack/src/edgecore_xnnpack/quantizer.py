"""The `Quantizer` for torchao's PT2E quantization: it annotates the values that become integers for XNNPACK."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.fake_quantize import FusedMovingAvgObsFakeQuantize
from torchao.quantization.pt2e.observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
)
from torchao.quantization.pt2e.quantizer import (
    FixedQParamsQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
)

from edgecore_xnnpack.passes.quantize import FIXED_OUTPUT
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten
ANNOTATION = "quantization_annotation"
EPS = 2.0**-12
"""Minimum scale that observers choose: XNNPACK multiplies scales, and the product of smaller ones underflows."""

CHANNEL_AXIS = {
    aten.conv1d.default: 0, aten.conv1d.padding: 0, aten.conv2d.default: 0, aten.conv2d.padding: 0, aten.linear.default: 0,
    aten.conv3d.default: 0, aten.conv3d.padding: 0, aten.conv_transpose1d.default: 1, aten.conv_transpose2d.input: 1,
}  # fmt: skip
"""Operators with a weight, and the dimension of the weight's output channels."""

NORMS = frozenset({aten.batch_norm.default})
CLAMPS = frozenset({
    aten.relu.default, aten.relu_.default, aten.relu6.default, aten.relu6_.default, aten.hardtanh.default,
    aten.hardtanh_.default, aten.clamp.default, aten.clamp_.default,
})  # fmt: skip
"""Clamps: fused into the operation before, or else with the same quantization parameters for input and output."""

TWO_INPUTS = frozenset({
    aten.add.Tensor, aten.add_.Tensor, aten.sub.Tensor, aten.sub_.Tensor, aten.mul.Tensor, aten.mul_.Tensor,
})  # fmt: skip
ONE_INPUT = frozenset({
    aten.hardswish.default, aten.hardswish_.default, aten.leaky_relu.default, aten.leaky_relu_.default,
    aten.elu.default, aten.elu_.default, aten.mean.dim, aten.adaptive_avg_pool2d.default,
    aten.adaptive_avg_pool3d.default,
})  # fmt: skip
FIXED = {aten.sigmoid.default: g.Sigmoid, aten.sigmoid_.default: g.Sigmoid, aten.tanh.default: g.Tanh,
         aten.tanh_.default: g.Tanh}  # fmt: skip

MOVES = CLAMPS | {
    aten.max_pool2d.default, aten.max_pool3d.default, aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.permute.default,
    aten.transpose.int, aten.slice.Tensor, aten.squeeze.dim, aten.unsqueeze.default, aten.dropout.default,
    aten.dropout_.default, aten.pad.default, aten.constant_pad_nd.default, aten.cat.default,
    aten.upsample_bilinear2d.vec,
}  # fmt: skip
"""Operators whose result has the quantization parameters of their inputs, if the inputs are quantized."""


@dataclass(frozen=True)
class QuantizationConfig:
    """Quantization parameters of a part of a model.

    Attributes:
        activation: The specification of activations.
        weight: Returns the specification of a weight, given the dimension of its output channels.
        is_per_channel: True if weights have a scale for each output channel, False for a single scale.
        is_qat: True for quantization-aware training.
    """

    activation: QuantizationSpec
    weight: Callable[[int], QuantizationSpec]
    is_per_channel: bool
    is_qat: bool


def get_symmetric_quantization_config(
    is_per_channel: bool = False,
    is_qat: bool = False,
    is_dynamic: bool = False,
    *,
    is_symmetric: bool = False,
    observer: Any = HistogramObserver,
) -> QuantizationConfig:
    """Return the configuration of symmetric int8 weights (zero point 0) and int8 activations.

    Args:
        is_per_channel: Give weights a scale for each output channel instead of a single scale.
        is_qat: Insert fake quantization for quantization-aware training with `prepare_qat_pt2e`.
        is_dynamic: Quantize only linear layers, with inputs that are quantized per token at run time.
        is_symmetric: Give activations the zero point 0.
        observer: Class of torchao that chooses the ranges of activations; not used for training and at run time.

    Raises:
        ValueError: Both `is_qat` and `is_dynamic` are True.
    """
    if is_qat and is_dynamic:
        raise ValueError(
            "is_qat and is_dynamic exclude each other: there is no quantization-aware training of dynamic quantization"
        )
    affine, symmetric = torch.per_tensor_affine, torch.per_tensor_symmetric
    if is_qat:
        observed: Any = FusedMovingAvgObsFakeQuantize.with_args(
            observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, eps=EPS
        )
    elif is_dynamic:
        observed = PlaceholderObserver.with_args(eps=EPS)
    else:
        observed = observer.with_args(eps=EPS)
    scheme = symmetric if is_symmetric else affine
    activation = QuantizationSpec(torch.int8, observed, -128, 127, scheme, is_dynamic=is_dynamic)

    def weight(axis: int) -> QuantizationSpec:
        if is_qat:
            inner = MovingAveragePerChannelMinMaxObserver if is_per_channel else MovingAverageMinMaxObserver
            observed: Any = FusedMovingAvgObsFakeQuantize.with_args(observer=inner, eps=EPS)
        else:
            observed = (PerChannelMinMaxObserver if is_per_channel else MinMaxObserver).with_args(eps=EPS)
        scheme = torch.per_channel_symmetric if is_per_channel else symmetric
        return QuantizationSpec(torch.int8, observed, -127, 127, scheme, axis if is_per_channel else None)

    return QuantizationConfig(activation, weight, is_per_channel, is_qat)


class XNNPACKQuantizer(Quantizer):  # type: ignore[misc]
    """Annotates an exported model for `prepare_pt2e` and `prepare_qat_pt2e`.

    A configuration for a module's name has precedence over one for its type, which has precedence over the global
    one. The configuration None leaves a module in floating point.
    """

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, QuantizationConfig | None] = {}
        self._types: dict[str, QuantizationConfig | None] = {}
        self._global: QuantizationConfig | None = None

    def set_global(self, quantization_config: QuantizationConfig | None) -> XNNPACKQuantizer:
        """Set the configuration of all operators that no other configuration applies to."""
        self._global = quantization_config
        return self

    def set_object_type(
        self, object_type: type[torch.nn.Module], quantization_config: QuantizationConfig | None
    ) -> XNNPACKQuantizer:
        """Set the configuration of operators in modules of a type."""
        self._types[f"{object_type.__module__}.{object_type.__qualname__}"] = quantization_config
        return self

    def set_module_name(self, module_name: str, quantization_config: QuantizationConfig | None) -> XNNPACKQuantizer:
        """Set the configuration of operators in a module and its submodules; the name is as in `named_modules()`."""
        self._names[module_name] = quantization_config
        return self

    def annotate(self, model: GraphModule) -> GraphModule:
        """Write annotations into the `meta` of the nodes; return `model`."""
        for node in model.graph.nodes:
            config = self._config_of(node) if node.op == "call_function" and ANNOTATION not in node.meta else None
            if config is not None and _is_float(node) and not _reads_empty(node):
                _annotate(node, config)
        return model

    def validate(self, model: GraphModule) -> None:
        """Do nothing: an annotated operator that XNNPACK cannot run on integers runs in floating point."""

    def _config_of(self, node: Node) -> QuantizationConfig | None:
        stack = list(node.meta.get("nn_module_stack", {}).values())
        for name, kind in reversed(stack):
            plain = _plain_name(name)
            if plain in self._names:
                return self._names[plain]
            text = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
            if text in self._types:
                return self._types[text]
        return self._global


def _plain_name(name: str) -> str:
    """Return a module's name as in `named_modules()`, without the prefix that `torch.export` writes."""
    for prefix in ("L['self'].", "L__self___"):
        name = name.removeprefix(prefix)
    return name


def _is_float(node: Node) -> bool:
    val = node.meta.get("val")
    return isinstance(val, torch.Tensor) and val.dtype == torch.float32


def _reads_empty(node: Node) -> bool:
    """Return True if a node reads a tensor without elements, whose range an observer cannot determine."""
    return any(
        isinstance(val := source.meta.get("val"), torch.Tensor) and 0 in val.shape for source in node.all_input_nodes
    )


def _annotate(node: Node, config: QuantizationConfig) -> None:
    target = node.target
    if config.activation.is_dynamic:
        if target is aten.linear.default:
            _mark(node, None, {node.args[0]: config.activation, node.args[1]: config.weight(0)})
    elif target in CHANNEL_AXIS:
        value, weight = node.args[0], node.args[1]
        axis = CHANNEL_AXIS[target]
        grouped = axis == 1 and len(node.args) > 6 and node.args[6] != 1
        spec = config.weight(0 if grouped else axis)
        if grouped and config.is_per_channel:
            return  # with groups, no dimension of a transposed weight has all output channels
        _mark(_tail(node), config.activation, {})
        _mark(node, None if _tail(node) is not node else config.activation, {value: config.activation, weight: spec})
    elif target in TWO_INPUTS:
        tensors = [arg for arg in node.args[:2] if isinstance(arg, Node) and _is_float(arg)]
        if len(tensors) == 2 and not any(arg.op == "get_attr" for arg in tensors):
            _mark(_tail(node), config.activation, {})
            own = None if _tail(node) is not node else config.activation
            _mark(node, own, dict.fromkeys(tensors, config.activation))
    elif target in ONE_INPUT:
        _mark(node, config.activation, {node.args[0]: config.activation})
    elif target in FIXED:
        fixed = FIXED_OUTPUT[FIXED[target]]
        output = FixedQParamsQuantizationSpec(
            torch.int8, fixed.scale, fixed.zero_point, -128, 127, torch.per_tensor_affine
        )
        _mark(node, output, {node.args[0]: config.activation})
    elif target in MOVES:
        _share(node, config)


def _share(node: Node, config: QuantizationConfig) -> None:
    """Annotate the inputs and the result to share one observer, if all inputs are annotated as quantized already."""
    sources = [source for source in node.all_input_nodes if _is_float(source)]
    if not sources or not all(_output_spec(source) is not None for source in sources):
        return
    first = sources[0]
    shared = SharedQuantizationSpec((first, node))
    specs: dict[Any, QuantizationSpecBase] = dict.fromkeys(sources, shared)
    specs[first] = config.activation
    _mark(node, shared, specs)


def _output_spec(node: Node) -> QuantizationSpecBase | None:
    annotation = node.meta.get(ANNOTATION)
    return None if annotation is None else annotation.output_qspec


def _tail(node: Node) -> Node:
    """Return the last of the batch norm and clamp that are fused into `node`; `node` itself if there is neither."""
    for group in (NORMS, CLAMPS):
        users = list(node.users)
        if len(users) == 1 and users[0].target in group:
            node = users[0]
    return node


def _mark(node: Node, output: QuantizationSpecBase | None, inputs: Mapping[Any, QuantizationSpecBase]) -> None:
    node.meta[ANNOTATION] = QuantizationAnnotation(input_qspec_map=dict(inputs), output_qspec=output, _annotated=True)
