"""The `Quantizer` for torchao's PT2E quantization: it annotates the values that become integers for XNNPACK."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torchao.quantization.pt2e.observer import HistogramObserver, PlaceholderObserver
from torchao.quantization.pt2e.quantizer import QuantizationSpec

from edgecore.sdk import SMALLEST_SCALE, argument, for_each
from edgecore.sdk.annotations import (
    CLAMPS,
    LAYERS,
    NORMS,
    ModuleQuantizer,
    Role,
    activation_observer,
    fixed_spec,
    fused_tail,
    is_float,
    mark,
    mark_fused,
    mark_shared,
    operators,
    weight_spec,
    with_roles,
)
from edgecore_xnnpack.operators.convolution import transposed_problem

aten = torch.ops.aten
CHANNEL_AXIS = {target: axis for target, axis in LAYERS.items() if target is not aten.convolution.default}
"""Maps operators with a weight to the dimension of the weight's output channels."""
IMAGES = {
    aten.conv1d.default: 3, aten.conv1d.padding: 3, aten.conv2d.default: 4, aten.conv2d.padding: 4,
    aten.conv_transpose1d.default: 3, aten.conv_transpose2d.input: 4,
}  # fmt: skip
"""Maps convolutions whose inputs can be quantized at run time to the number of dims of these inputs."""

TWO_INPUTS = with_roles(Role.BINARY) - operators("div.Tensor div_.Tensor")
ONE_INPUT = operators(
    "hardswish hardswish_ leaky_relu leaky_relu_ elu elu_ mean.dim adaptive_avg_pool2d adaptive_avg_pool3d"
)
FIXED = operators("sigmoid sigmoid_ tanh tanh_")

MOVES = with_roles(Role.CLAMP, Role.VIEW, Role.IDENTITY, Role.PAD, Role.MAX_POOL) | operators(
    "slice.Tensor cat upsample_bilinear2d.vec"
)
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
    act_qmin: int = -128,
    act_qmax: int = 127,
    weight_qmin: int = -127,
    weight_qmax: int = 127,
    *,
    is_symmetric: bool = False,
    observer: Any = HistogramObserver,
) -> QuantizationConfig:
    """Return the configuration of symmetric int8 weights (zero point 0) and int8 activations.

    Args:
        is_per_channel: Give weights a scale for each output channel instead of a single scale.
        is_qat: Insert fake quantization for quantization-aware training with `prepare_qat_pt2e`.
        is_dynamic: Quantize only linear layers, and convolutions of sequences and images that are not depthwise; their
            inputs are quantized at run time, per token or per image.
        act_qmin: Minimum of the integers of activations. The delegate supports only [-128, 127].
        act_qmax: Maximum of the integers of activations.
        weight_qmin: Minimum of the integers of weights. With `is_dynamic`, [-8, 7] gives linear layers 4-bit weights.
        weight_qmax: Maximum of the integers of weights.
        is_symmetric: Give activations the zero point 0.
        observer: Class of torchao that chooses the ranges of activations; ignored for training and dynamic
            quantization.

    Raises:
        ValueError: Both `is_qat` and `is_dynamic` are True.
    """
    if is_qat and is_dynamic:
        raise ValueError(
            "is_qat and is_dynamic exclude each other: there is no quantization-aware training of dynamic quantization"
        )
    affine, symmetric = torch.per_tensor_affine, torch.per_tensor_symmetric
    if is_dynamic:
        observed: Any = PlaceholderObserver.with_args(eps=SMALLEST_SCALE)
    else:
        observed = activation_observer(observer, act_qmin, act_qmax, is_qat=is_qat)
    scheme = symmetric if is_symmetric else affine
    activation = QuantizationSpec(torch.int8, observed, act_qmin, act_qmax, scheme, is_dynamic=is_dynamic)

    def weight(axis: int) -> QuantizationSpec:
        return weight_spec(torch.int8, weight_qmin, weight_qmax, axis if is_per_channel else None, is_qat=is_qat)

    return QuantizationConfig(activation, weight, is_per_channel, is_qat)


def _takes_images(node: Node, config: QuantizationConfig) -> bool:
    """Return True if the input of a convolution can be quantized at run time.

    The input must have a batch dimension, as each image has a scale. XNNPACK has no dynamically quantized depthwise
    convolution. With groups, no dimension of a transposed weight has all output channels, so the channels cannot have a
    scale each. A convolution that is not delegated must stay in floating point, since ExecuTorch's core has no kernel
    that chooses scales. Sequences become images by a reshape, in which XNNPACK can infer only one symbolic size. With
    `padding="same"` and an odd number of zeros in total, decomposition puts a pad between the quantized input and the
    convolution.
    """
    target: Any = node.target
    shape, groups = argument(node, "input").meta["val"].shape, argument(node, "groups")
    symbolic = [size for size in shape if isinstance(size, torch.SymInt)]
    if len(shape) != IMAGES[target] or (len(shape) == 3 and len(symbolic) > 1):
        return False
    if argument(node, "padding") == "same" and _pads_unevenly(node):
        return False
    if CHANNEL_AXIS[target] == 0:
        return bool(groups == 1 or argument(node, "weight").meta["val"].shape[1] > 1)
    has_scales = groups == 1 or not config.is_per_channel
    return has_scales and transposed_problem(node, node.meta["val"].shape[2:]) is None


def _pads_unevenly(node: Node) -> bool:
    """Return True if `padding="same"` adds an odd number of zeros to a dim."""
    kernel = argument(node, "weight").meta["val"].shape[2:]
    dilation = for_each(argument(node, "dilation"), len(kernel))
    return any(step * (size - 1) % 2 for step, size in zip(dilation, kernel, strict=True))


class XNNPACKQuantizer(ModuleQuantizer[QuantizationConfig]):
    """Annotates an exported model for `prepare_pt2e` and `prepare_qat_pt2e`.

    A configuration for a module's name has precedence over one for its type, which has precedence over the global
    one. The configuration None leaves a module in floating point.
    """

    dtypes = (torch.float32, torch.float16)

    def annotate_node(self, node: Node, config: QuantizationConfig) -> None:
        """Annotate a node, and the batch norm and clamp that are fused with it."""
        target = node.target
        if config.activation.is_dynamic:
            if target is aten.linear.default or (target in IMAGES and _takes_images(node, config)):
                weight = config.weight(CHANNEL_AXIS[target])
                mark(node, None, {node.args[0]: config.activation, node.args[1]: weight}, self.dtypes)
        elif not is_float(node):
            return  # skip this dtype, because XNNPACK converts int8 only from and to float32
        elif target in CHANNEL_AXIS:
            axis = CHANNEL_AXIS[target]
            grouped = axis == 1 and len(node.args) > 6 and node.args[6] != 1
            if grouped and config.is_per_channel:
                return  # channels cannot have a scale each: no dim of this weight has all output channels
            weight = config.weight(0 if grouped else axis)
            inputs = {node.args[0]: config.activation, node.args[1]: weight}
            mark_fused(fused_tail(node, (NORMS, CLAMPS)), node, config.activation, inputs)
        elif target in TWO_INPUTS:
            tensors = [arg for arg in node.args[:2] if is_float(arg)]
            if len(tensors) == 2 and not any(arg.op == "get_attr" for arg in tensors):  # type: ignore[union-attr]
                inputs = dict.fromkeys(tensors, config.activation)
                mark_fused(fused_tail(node, (NORMS, CLAMPS)), node, config.activation, inputs)
        elif target in ONE_INPUT:
            mark(node, config.activation, {node.args[0]: config.activation})
        elif target in FIXED:
            mark(node, fixed_spec(target, torch.int8), {node.args[0]: config.activation})
        elif target in MOVES:
            mark_shared(node, config.activation)
