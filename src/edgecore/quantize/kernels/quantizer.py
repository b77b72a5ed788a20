"""The quantizer of edgecore's own kernels: annotates the values that become integers."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import torch
from torch.fx import Node
from torchao.quantization.pt2e.quantizer import QuantizationSpec

from edgecore.ir.torch_compat import OpOverload
from edgecore.quantize.annotations import (
    OBSERVERS,
    ModuleQuantizer,
    activation_observer,
    channel_dim,
    float_args,
    fused_tail,
    mark,
    mark_fused,
    mark_shared,
    output_spec,
    weight_spec,
)
from edgecore.quantize.kernels.recipes import Int8, Int16x8
from edgecore.quantize.roles import CLAMPS, LAYERS, NORMS, Role, fixed_spec, operators, with_roles

aten = torch.ops.aten
VOLUMES = operators("conv3d conv3d.padding")
TWO_INPUTS = with_roles(Role.BINARY) - operators("div.Tensor div_.Tensor")
MATMULS = with_roles(Role.PRODUCT)
UNTAGGED = operators("hardswish hardswish_")
"""Elementwise functions that lack torch's tag `pointwise`."""

MEANS = with_roles(Role.AVERAGE) - operators("mean _adaptive_avg_pool2d adaptive_avg_pool3d")
MASK = 1e4
"""A constant that has an element of at least this magnitude counts as an attention mask."""

SOFTMAX = operators("softmax.int _softmax")
FIXED = with_roles(Role.FIXED) - operators("hardsigmoid hardsigmoid_")
MOVES = with_roles(Role.CLAMP, Role.VIEW, Role.IDENTITY, Role.PAD) | operators(
    "unflatten.int max_pool2d slice.Tensor select.int expand cat"
)
"""Operators whose result shares the quantization parameters of their inputs, if these are quantized."""


@dataclass(frozen=True)
class QuantizationConfig:
    """The quantization of a part of a model.

    Attributes:
        activation: The specification of activations.
        is_per_channel: True if weights have a scale for each output channel, False for a single scale.
        is_qat: True for quantization-aware training.
    """

    activation: QuantizationSpec
    is_per_channel: bool
    is_qat: bool


def config(parameters: Int8 | Int16x8, *, is_qat: bool) -> QuantizationConfig:
    """Return the quantization configuration that the parameters of a recipe describe."""
    if isinstance(parameters, Int8):
        dtype, low, high, is_symmetric = torch.int8, -128, 127, parameters.symmetric
    else:
        dtype, low, high, is_symmetric = torch.int16, -32767, 32767, True
    scheme = torch.per_tensor_symmetric if is_symmetric else torch.per_tensor_affine
    observed = activation_observer(OBSERVERS[parameters.observer], low, high, is_qat=is_qat)
    activation = QuantizationSpec(dtype, observed, low, high, scheme)
    return QuantizationConfig(activation, parameters.weights == "channel", is_qat)


class KernelQuantizer(ModuleQuantizer[QuantizationConfig]):
    """Annotates an exported model for the integer operators of edgecore's kernels."""

    def annotate_node(self, node: Node, config: QuantizationConfig) -> None:
        """Annotate a node, and the batch norm and clamp that are fused with it."""
        target, activation = node.target, config.activation
        if target in LAYERS and target not in VOLUMES:
            axis = channel_dim(node) if config.is_per_channel else None
            if config.is_per_channel and axis is None:
                return  # skip a transposed convolution with groups: no dim of its weight has all output channels
            weight = weight_spec(torch.int8, -127, 127, axis, is_qat=config.is_qat)
            inputs = {node.args[0]: activation, node.args[1]: weight}
            mark_fused(fused_tail(node, (NORMS, CLAMPS)), node, activation, inputs)
        elif target in TWO_INPUTS and len(float_args(node)) == 2 and not any(map(_is_mask, float_args(node))):
            mark_fused(fused_tail(node, (CLAMPS,)), node, activation, dict.fromkeys(float_args(node), activation))
        elif target in MATMULS and len(float_args(node)) == 2 and _are_matrices(node.all_input_nodes):
            mark(node, activation, dict.fromkeys(float_args(node), activation))
        elif target in SOFTMAX and output_spec(node.args[0]) is None:
            return  # keep the softmax in float: its input may have masked scores
        elif target in FIXED:
            mark(node, fixed_spec(target, activation.dtype), {node.args[0]: activation})
        elif target in MOVES:
            mark_shared(node, activation)
        elif target in MEANS or _is_function_of_one(node):
            mark(node, activation, {node.args[0]: activation})


def _are_matrices(nodes: list[Node]) -> bool:
    return all(node.meta["val"].dim() > 1 and not _is_constant(node) for node in nodes)


def _is_constant(node: Node) -> bool:
    """Return True for a parameter or buffer, and for a value that is computed only from these."""
    sources = node.all_input_nodes
    return node.op == "get_attr" or (bool(sources) and all(map(_is_constant, sources)))


def _is_mask(node: Node) -> bool:
    """Return True for a constant with elements so large that a scale that covers them would round all others to 0."""
    if node.op != "get_attr":
        return False
    value = attrgetter(str(node.target))(node.graph.owning_module)
    return bool((value.detach().abs() >= MASK).any())


def _is_function_of_one(node: Node) -> bool:
    """Return True for an elementwise function of one tensor, which the kernels compute with a table."""
    target = node.target
    is_operator = isinstance(target, OpOverload)
    is_pointwise = is_operator and (torch.Tag.pointwise in target.tags or target in UNTAGGED)  # type: ignore[union-attr]
    return is_pointwise and len(node.all_input_nodes) == 1 and float_args(node)[:1] == list(node.args[:1])
