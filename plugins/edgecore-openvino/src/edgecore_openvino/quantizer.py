"""The quantizer of `quantize="int8"`: it annotates the values that become 8-bit integers.

Only inputs of convolutions, linear layers, matmuls and additions are annotated, as in OpenVINO's own tools. OpenVINO
moves quantization past operators that only move data, and rescales integers directly between two integer kernels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.observer import HistogramObserver, MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer

from edgecore.sdk import SMALLEST_SCALE
from edgecore.sdk.annotations import operators

_WEIGHTS = (-63, 63)
"""Range of quantized weights, 7 bits.

A CPU without VNNI adds two products of uint8 and int8 with saturation to 16 bits: 2 * 255 * 63 = 32130 fits below
32767, but 2 * 255 * 127 does not.
"""

WEIGHTED = operators("conv1d conv1d.padding conv2d conv2d.padding linear")
"""Operators with a weight whose first dimension is the output channels."""
TWO_INPUTS = operators("add.Tensor add_.Tensor matmul bmm")
"""Operators whose two inputs are quantized. If one of the inputs is a constant, neither is quantized."""


class OpenvinoQuantizer(Quantizer):  # type: ignore[misc]
    """Quantizes activations to 8 bits with a scale per tensor, and weights to 7 bits.

    Args:
        weights: "channel" for a scale per output channel of a weight, "tensor" for a single scale.
        symmetric: True for int8 activations with zero point 0, False for uint8 with any zero point.
        observer: Class of torchao that chooses the ranges of activations.
    """

    def __init__(self, weights: str = "channel", symmetric: bool = False, observer: Any = HistogramObserver) -> None:
        super().__init__()
        observed = observer.with_args(eps=SMALLEST_SCALE)
        if symmetric:
            self.value = QuantizationSpec(torch.int8, observed, -128, 127, torch.per_tensor_symmetric)
        else:
            self.value = QuantizationSpec(torch.uint8, observed, 0, 255, torch.per_tensor_affine)
        if weights == "tensor":
            scales: Any = MinMaxObserver.with_args(eps=SMALLEST_SCALE)
            self.weight = QuantizationSpec(torch.int8, scales, *_WEIGHTS, torch.per_tensor_symmetric)
        else:
            scales = PerChannelMinMaxObserver.with_args(eps=SMALLEST_SCALE)
            self.weight = QuantizationSpec(torch.int8, scales, *_WEIGHTS, torch.per_channel_symmetric, 0)

    def annotate(self, model: GraphModule) -> GraphModule:
        """Write annotations into the `meta` of the nodes; return `model`."""
        for node in model.graph.nodes:
            specs: dict[Any, Any] = {}
            if node.target in WEIGHTED:
                specs = {node.args[0]: self.value, node.args[1]: self.weight}
            elif node.target in TWO_INPUTS and all(map(_is_value, node.args[:2])):
                specs = dict.fromkeys(node.args[:2], self.value)
            if specs and _is_value(node) and "quantization_annotation" not in node.meta:
                node.meta["quantization_annotation"] = QuantizationAnnotation(input_qspec_map=specs, _annotated=True)
        return model

    def validate(self, model: GraphModule) -> None:
        """Do nothing: OpenVINO has integer kernels for every annotated operator."""


def _is_value(node: Any) -> bool:
    val = node.meta.get("val") if isinstance(node, Node) and node.op != "get_attr" else None
    return isinstance(val, torch.Tensor) and val.dtype == torch.float32
