"""The `Quantizer` for torchao's PT2E quantization: it annotates the values to quantize for Vulkan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torchao.quantization.pt2e.observer import HistogramObserver, PlaceholderObserver
from torchao.quantization.pt2e.quantizer import QuantizationSpec

from edgecore.sdk import SMALLEST_SCALE
from edgecore.sdk.annotations import (
    CLAMPS,
    NORMS,
    ModuleQuantizer,
    Role,
    fused_tail,
    is_float,
    mark,
    mark_fused,
    mark_shared,
    operators,
    weight_spec,
    with_roles,
)

aten = torch.ops.aten

_LINEAR = aten.linear.default
_CONVOLUTIONS = operators("conv2d conv2d.padding")
_RELUS = operators("relu relu_")
_ADDITIONS = operators("add.Tensor add_.Tensor")
_MOVES = with_roles(Role.IDENTITY) | operators("view reshape flatten.using_ints")
"""Operators whose result has the quantization parameters of the input, so that the next layer reads integers."""

_ROOM = {8: 127, 4: 7}


@dataclass(frozen=True)
class QuantizationConfig:
    """The configuration by which the quantizer annotates layers.

    Attributes:
        activation: The specification of activations; None to quantize weights only.
        weight: The specification of weights, with a scale per output channel.
    """

    activation: QuantizationSpec | None
    weight: QuantizationSpec


def get_symmetric_quantization_config(
    is_dynamic: bool = False, weight_bits: int = 8, *, is_static: bool = False, observer: Any = HistogramObserver
) -> QuantizationConfig:
    """Return the configuration for symmetric integer weights (zero point 0).

    By default, only weights of linear layers are quantized.

    Args:
        is_dynamic: Also quantize inputs of linear layers to int8, with ranges that are computed at run time.
        weight_bits: 8 or 4, the bits of weights.
        is_static: Quantize convolutions, linear layers and sums to int8, with ranges from calibration.
        observer: Class of torchao that chooses the ranges from calibration.

    Raises:
        ValueError: `is_dynamic` and `is_static` are both true, or `weight_bits` is not 8 (nor 4 without `is_static`).
    """
    if weight_bits not in _ROOM:
        raise ValueError(f"weight_bits={weight_bits}: it must be 8 or 4")
    if is_dynamic and is_static:
        raise ValueError("is_dynamic and is_static exclude each other")
    if is_static and weight_bits != 8:
        raise ValueError("is_static needs weight_bits=8")
    activation = None
    if is_dynamic or is_static:
        chosen = (observer if is_static else PlaceholderObserver).with_args(eps=SMALLEST_SCALE)
        activation = QuantizationSpec(torch.int8, chosen, -128, 127, torch.per_tensor_affine, is_dynamic=is_dynamic)
    room = _ROOM[weight_bits]
    return QuantizationConfig(activation, weight_spec(torch.int8, -room, room, 0, is_qat=False))


class VulkanQuantizer(ModuleQuantizer[QuantizationConfig]):
    """Annotates the values of an exported model that become integers for Vulkan, for torchao's `prepare_pt2e`."""

    def __init__(self) -> None:
        super().__init__()
        self._filter: Callable[[Node], bool] = lambda node: True

    def set_filter_function(self, filter_fn: Callable[[Node], bool]) -> VulkanQuantizer:
        """Quantize only operators (nodes of the model) for which `filter_fn` returns True."""
        self._filter = filter_fn
        return self

    def annotate_node(self, node: Node, config: QuantizationConfig) -> None:
        """Annotate a node, together with a batch norm or clamp that is fused with it."""
        if not self._filter(node):
            return
        activation = config.activation
        if activation is None or activation.is_dynamic:
            if node.target is _LINEAR:
                inputs: dict[Any, QuantizationSpec] = {node.args[1]: config.weight}
                mark(node, None, inputs if activation is None else {node.args[0]: activation, **inputs})
        elif node.target is _LINEAR or node.target in _CONVOLUTIONS:
            inputs = {node.args[0]: activation, node.args[1]: config.weight}
            mark_fused(fused_tail(node, (NORMS, CLAMPS)), node, activation, inputs)
        elif node.target in _ADDITIONS:
            tensors = [
                arg
                for arg in node.args[:2]
                if is_float(arg) and arg.op != "get_attr"  # type: ignore[union-attr]
            ]
            if len(tensors) == 2:
                mark_fused(fused_tail(node, (NORMS, _RELUS)), node, activation, dict.fromkeys(tensors, activation))
        elif node.target in _MOVES:
            mark_shared(node, activation)
