"""The `Quantizer` for torchao's PT2E quantization: it annotates the values that become integers for Vulkan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.observer import HistogramObserver, PerChannelMinMaxObserver, PlaceholderObserver
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
)

aten = torch.ops.aten
ANNOTATION = "quantization_annotation"

_LINEAR = aten.linear.default
_CONVOLUTIONS = frozenset({aten.conv2d.default, aten.conv2d.padding})
_NORMS = frozenset({aten.batch_norm.default})
_RELUS = frozenset({aten.relu.default, aten.relu_.default})
_CLAMPS = _RELUS | {
    aten.relu6.default, aten.relu6_.default, aten.hardtanh.default, aten.hardtanh_.default, aten.clamp.default,
    aten.clamp_.default,
}  # fmt: skip
"""Clamps are fused into the layer before them: int8 holds only numbers between their limits."""

_ADDITIONS = frozenset({aten.add.Tensor, aten.add_.Tensor})
_MOVES = frozenset({
    aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.dropout.default, aten.dropout_.default,
})  # fmt: skip
"""Operators whose result has the quantization parameters of the input, so that the next layer reads integers."""

_ROOM = {8: 127, 4: 7}


@dataclass(frozen=True)
class QuantizationConfig:
    """How layers are quantized.

    Attributes:
        activation: The specification of activations; None to quantize weights only.
        weight: The specification of weights, which have a scale for each output channel.
    """

    activation: QuantizationSpec | None
    weight: QuantizationSpec


def get_symmetric_quantization_config(
    is_dynamic: bool = False, weight_bits: int = 8, *, is_static: bool = False, observer: Any = HistogramObserver
) -> QuantizationConfig:
    """Return the configuration of symmetric integer weights.

    By default only the weights of linear layers are integers.

    Args:
        is_dynamic: Quantize also the inputs of linear layers to int8, with a range that is found while the graph runs.
        weight_bits: 8 or 4, the bits of weights.
        is_static: Quantize convolutions, linear layers and sums to int8, with ranges from calibration.
        observer: Class of torchao that chooses the static ranges.

    Raises:
        ValueError: Both `is_dynamic` and `is_static` are true, or `weight_bits` is another number.
    """
    if weight_bits not in _ROOM:
        raise ValueError(f"weight_bits={weight_bits}: it must be 8 or 4")
    if is_dynamic and is_static:
        raise ValueError("is_dynamic and is_static exclude each other")
    if is_static and weight_bits != 8:
        raise ValueError("is_static needs weight_bits=8")
    activation = None
    if is_dynamic or is_static:
        chosen = observer if is_static else PlaceholderObserver
        activation = QuantizationSpec(torch.int8, chosen, -128, 127, torch.per_tensor_affine, is_dynamic=is_dynamic)
    room = _ROOM[weight_bits]
    weight = QuantizationSpec(
        torch.int8, PerChannelMinMaxObserver, -room, room, torch.per_channel_symmetric, ch_axis=0
    )  # fmt: skip
    return QuantizationConfig(activation, weight)


class VulkanQuantizer(Quantizer):  # type: ignore[misc]
    """Annotates an exported model for `prepare_pt2e`."""

    def __init__(self) -> None:
        super().__init__()
        self._config: QuantizationConfig | None = None
        self._filter: Callable[[Node], bool] = lambda node: True

    def set_global(self, quantization_config: QuantizationConfig | None) -> VulkanQuantizer:
        """Set the configuration; None quantizes nothing."""
        self._config = quantization_config
        return self

    def set_filter_function(self, filter_fn: Callable[[Node], bool]) -> VulkanQuantizer:
        """Quantize only the operators for which a function returns true."""
        self._filter = filter_fn
        return self

    def annotate(self, model: GraphModule) -> GraphModule:
        """Write annotations into the `meta` of the nodes; return `model`."""
        config = self._config
        for node in model.graph.nodes if config is not None else []:
            if node.op == "call_function" and ANNOTATION not in node.meta and _is_float(node) and self._filter(node):
                assert config is not None
                _annotate(node, config)
        return model

    def validate(self, model: GraphModule) -> None:
        """Do nothing: an annotated operator without a call between integers computes in floating point."""


def _is_float(node: Any) -> bool:
    val = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(val, torch.Tensor) and val.dtype == torch.float32 and val.numel() != 0


def _annotate(node: Node, config: QuantizationConfig) -> None:
    activation = config.activation
    is_static = activation is not None and not activation.is_dynamic
    if not is_static:
        if node.target is _LINEAR:
            inputs: dict[Any, QuantizationSpecBase] = {node.args[1]: config.weight}
            _mark(node, None, inputs if activation is None else {node.args[0]: activation, **inputs})
        return
    assert activation is not None
    if node.target is _LINEAR or node.target in _CONVOLUTIONS:
        _mark_until(_tail(node, _CLAMPS), node, {node.args[0]: activation, node.args[1]: config.weight}, activation)
    elif node.target in _ADDITIONS:
        tensors = [arg for arg in node.args[:2] if _is_float(arg) and arg.op != "get_attr"]  # type: ignore[union-attr]
        if len(tensors) == 2:
            _mark_until(_tail(node, _RELUS), node, dict.fromkeys(tensors, activation), activation)
    elif node.target in _MOVES and _output_spec(node.args[0]) is not None:
        _mark(node, SharedQuantizationSpec((node.args[0], node)), {node.args[0]: activation})


def _output_spec(node: Any) -> QuantizationSpecBase | None:
    annotation = node.meta.get(ANNOTATION)
    return None if annotation is None else annotation.output_qspec


def _tail(node: Node, clamps: frozenset[Any]) -> Node:
    """Return the last of the batch norm and clamp that are fused into `node`; `node` itself if there is neither."""
    for group in (_NORMS, clamps):
        users = list(node.users)
        if len(users) == 1 and users[0].target in group:
            node = users[0]
    return node


def _mark_until(tail: Node, node: Node, inputs: Mapping[Any, QuantizationSpecBase], output: QuantizationSpec) -> None:
    """Annotate the inputs of `node`, and the result of the last operator that is fused into it."""
    if tail is not node:
        _mark(tail, output, {})
    _mark(node, output if tail is node else None, inputs)


def _mark(node: Node, output: QuantizationSpecBase | None, inputs: Mapping[Any, QuantizationSpecBase]) -> None:
    node.meta[ANNOTATION] = QuantizationAnnotation(input_qspec_map=dict(inputs), output_qspec=output, _annotated=True)
