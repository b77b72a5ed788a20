"""The base of the quantizers for targets of TOSA: it annotates the values that become integers."""

from __future__ import annotations

from collections.abc import Sequence
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
)
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec,
    QuantizationSpec,
    QuantizationSpecBase,
)

from edgecore.sdk import argument
from edgecore.sdk.annotations import CLAMPS, NORMS, ModuleQuantizer, fused_tail, is_float, mark, mark_fused, mark_shared

aten = torch.ops.aten

LAYERS = {
    aten.conv1d.default: 0, aten.conv1d.padding: 0, aten.conv2d.default: 0, aten.conv2d.padding: 0, aten.conv3d.default: 0,
    aten.conv3d.padding: 0, aten.linear.default: 0, aten.conv_transpose1d.default: 1, aten.conv_transpose2d.input: 1,
}  # fmt: skip
"""Operators with a weight, and the dim of the weight's output channels."""

TWO_INPUTS = frozenset({
    aten.add.Tensor, aten.add_.Tensor, aten.sub.Tensor, aten.sub_.Tensor, aten.mul.Tensor, aten.mul_.Tensor,
    aten.matmul.default, aten.bmm.default, aten.mm.default,
})  # fmt: skip
ONE_INPUT = frozenset({
    aten.hardswish.default, aten.hardswish_.default, aten.hardsigmoid.default, aten.hardsigmoid_.default,
    aten.silu.default, aten.silu_.default, aten.gelu.default, aten.elu.default, aten.elu_.default,
    aten.leaky_relu.default, aten.leaky_relu_.default, aten.exp.default, aten.log.default, aten.sqrt.default,
    aten.rsqrt.default, aten.reciprocal.default, aten.pow.Tensor_Scalar, aten.abs.default, aten.neg.default,
    aten.sin.default, aten.cos.default, aten.erf.default, aten.div.Tensor, aten.div_.Tensor, aten.layer_norm.default,
    aten.group_norm.default, aten.sum.dim_IntList, aten.log_softmax.int, aten.rsub.Scalar, aten.prelu.default,
    aten.softplus.default, aten.mish.default, aten.selu.default, aten.celu.default, aten.square.default,
    aten.log_sigmoid.default, aten.tan.default, aten.atan.default, aten.log2.default, aten.log10.default,
    aten.log1p.default, aten.expm1.default, aten.floor.default, aten.ceil.default, aten.round.default,
})  # fmt: skip
"""Operators whose only tensor, or whose first one beside constants, and whose result are observed."""

FIXED = {
    aten.sigmoid.default: (0.0, 1.0), aten.sigmoid_.default: (0.0, 1.0), aten.softmax.int: (0.0, 1.0),
    aten._softmax.default: (0.0, 1.0), aten.tanh.default: (-1.0, 1.0), aten.tanh_.default: (-1.0, 1.0),
}  # fmt: skip
"""Operators whose results are in a known range."""

MOVES = CLAMPS | {
    aten.max_pool2d.default, aten.avg_pool2d.default, aten.adaptive_avg_pool2d.default, aten.mean.dim, aten.view.default, aten.reshape.default, aten.flatten.using_ints,
    aten.permute.default, aten.transpose.int, aten.slice.Tensor, aten.select.int, aten.squeeze.dim, aten.squeeze.dims,
    aten.unsqueeze.default, aten.dropout.default, aten.dropout_.default, aten.pad.default, aten.constant_pad_nd.default,
    aten.cat.default, aten.stack.default, aten.expand.default, aten.repeat.default, aten.flip.default,
    aten.upsample_bilinear2d.vec, aten.upsample_nearest2d.vec, aten.pixel_shuffle.default, aten.contiguous.default,
    aten.amax.default, aten.amin.default, aten.maximum.default, aten.minimum.default, aten.chunk.default,
    aten.split.Tensor, aten.split_with_sizes.default, aten.clone.default, aten.detach_.default, aten.alias.default,
    aten.index_select.default,
}  # fmt: skip
"""Operators whose result has the quantization parameters of their inputs, if the inputs are quantized.

Means are among them because an NPU averages integers without a change of scale, in one operation.
"""


@dataclass(frozen=True)
class QuantizationConfig:
    """Quantization parameters of a part of a model.

    Attributes:
        activation: The specification of activations.
        is_per_channel: True if weights have a scale for each output channel, False for a single scale.
        is_qat: True for quantization-aware training.
        weight_range: Minimum and maximum of the integers of weights.
        eps: Minimum scale.
    """

    activation: QuantizationSpec
    is_per_channel: bool = True
    is_qat: bool = False
    weight_range: tuple[int, int] = (-127, 127)
    eps: float = 2.0**-16

    def weight(self, axis: int) -> QuantizationSpec:
        """Return the specification of a weight with its output channels in the dim `axis`."""
        low, high = self.weight_range
        scheme = torch.per_channel_symmetric if self.is_per_channel else torch.per_tensor_symmetric
        if self.is_qat:
            inner = MovingAveragePerChannelMinMaxObserver if self.is_per_channel else MovingAverageMinMaxObserver
            observer: Any = FusedMovingAvgObsFakeQuantize.with_args(observer=inner, eps=self.eps)
        else:
            observer = (PerChannelMinMaxObserver if self.is_per_channel else MinMaxObserver).with_args(eps=self.eps)
        return QuantizationSpec(torch.int8, observer, low, high, scheme, axis if self.is_per_channel else None)


def get_symmetric_quantization_config(
    is_per_channel: bool = True,
    is_qat: bool = False,
    is_dynamic: bool = False,
    act_qmin: int = -128,
    act_qmax: int = 127,
    weight_qmin: int = -127,
    weight_qmax: int = 127,
    eps: float = 2.0**-16,
    *,
    observer: Any = HistogramObserver,
) -> QuantizationConfig:
    """Return the configuration of int8 activations and symmetric int8 weights (zero point 0).

    Args:
        is_per_channel: Give weights a scale for each output channel instead of a single scale.
        is_qat: Insert fake quantization for quantization-aware training with `prepare_qat_pt2e`.
        is_dynamic: Must be False.
        act_qmin: Minimum of the integers of activations.
        act_qmax: Maximum of the integers of activations.
        weight_qmin: Minimum of the integers of weights.
        weight_qmax: Maximum of the integers of weights.
        eps: Minimum scale.
        observer: Class of torchao that chooses the ranges of activations; not used for training.

    Raises:
        ValueError: `is_dynamic` is True: TOSA has no ranges that are found at run time.
    """
    if is_dynamic:
        raise ValueError("is_dynamic: TOSA has no quantization with ranges that are found at run time; use False")
    observed = _observed(is_qat, act_qmin, act_qmax, eps, observer)
    activation = QuantizationSpec(torch.int8, observed, act_qmin, act_qmax, torch.per_tensor_affine)
    return QuantizationConfig(activation, is_per_channel, is_qat, (weight_qmin, weight_qmax), eps)


def get_symmetric_a16w8_quantization_config(
    is_per_channel: bool = True,
    is_qat: bool = False,
    is_dynamic: bool = False,
    weight_qmin: int = -127,
    weight_qmax: int = 127,
    epsilon: float = 2.0**-12,
    *,
    observer: Any = HistogramObserver,
) -> QuantizationConfig:
    """Return the configuration of symmetric int16 activations and symmetric int8 weights.

    The arguments are those of `get_symmetric_quantization_config`.

    Raises:
        ValueError: `is_dynamic` is True.
    """
    if is_dynamic:
        raise ValueError("is_dynamic: TOSA has no quantization with ranges that are found at run time; use False")
    low, high = -32767, 32767
    observed = _observed(is_qat, low, high, epsilon, observer)
    activation = QuantizationSpec(torch.int16, observed, low, high, torch.per_tensor_symmetric)
    return QuantizationConfig(activation, is_per_channel, is_qat, (weight_qmin, weight_qmax), epsilon)


def _observed(is_qat: bool, low: int, high: int, eps: float, observer: Any) -> Any:
    if not is_qat:
        return observer.with_args(eps=eps)
    return FusedMovingAvgObsFakeQuantize.with_args(
        observer=MovingAverageMinMaxObserver, quant_min=low, quant_max=high, eps=eps
    )


class TosaQuantizer(ModuleQuantizer[QuantizationConfig]):
    """Annotates an exported model for `prepare_pt2e` and `prepare_qat_pt2e`.

    A configuration for a module's name has precedence over one for its type, which has precedence over the global
    one. The configuration None leaves a module in floating point.
    """

    def __init__(self) -> None:
        super().__init__()
        self._io: QuantizationConfig | None = None

    def set_io(self, quantization_config: QuantizationConfig | None) -> TosaQuantizer:
        """Set the configuration of the model's inputs and outputs."""
        self._io = quantization_config
        return self

    def set_module_type(
        self, module_type: type[torch.nn.Module], quantization_config: QuantizationConfig | None
    ) -> TosaQuantizer:
        """Set the configuration of operators in modules of a type."""
        return self.set_object_type(module_type, quantization_config)

    def quantize_with_submodules(
        self, model: GraphModule, calibration_samples: Sequence[tuple[Any, ...]], is_qat: bool = False
    ) -> GraphModule:
        """Quantize a model and the branches of its `torch.cond`, and return it.

        Args:
            model: The module of an exported program.
            calibration_samples: Inputs that take each branch at least once; for training, a few batches.
            is_qat: Prepare with fake quantization, as for training.
        """
        prepare = prepare_qat_pt2e if is_qat else prepare_pt2e
        branches = [name for name, module in model.named_children() if isinstance(module, GraphModule)]
        prepared = prepare(model, self)
        for name in branches:
            setattr(prepared, name, prepare(getattr(prepared, name), self))
        with torch.no_grad():  # with gradients, torch.cond traces its branches, which observers do not allow
            for sample in calibration_samples:
                prepared(*sample)
        for name in branches:
            setattr(prepared, name, convert_pt2e(getattr(prepared, name)))
        converted: GraphModule = convert_pt2e(prepared)
        return converted

    def annotate(self, model: GraphModule) -> GraphModule:
        """Write annotations into the `meta` of the nodes; return `model`."""
        if self._io is not None:
            activation = self._io.activation
            for node in model.graph.nodes:
                if node.op == "placeholder" and is_float(node):
                    mark(node, activation, {})
            output = model.graph.output_node()
            results = [node for node in output.all_input_nodes if is_float(node)]
            mark(output, None, dict.fromkeys(results, activation))
        return super().annotate(model)

    def annotate_node(self, node: Node, config: QuantizationConfig) -> None:
        """Annotate a node, and the batch norm and clamp that are fused with it."""
        target, activation = node.target, config.activation
        if target in LAYERS:
            self._annotate_layer(node, config)
        elif target in TWO_INPUTS and len(_tensors(node)) == 2:
            tail = fused_tail(node, (NORMS, CLAMPS))
            mark_fused(tail, node, activation, dict.fromkeys(_tensors(node), activation))
        elif target in TWO_INPUTS or target in ONE_INPUT:
            tail = fused_tail(node, (CLAMPS,))
            mark_fused(tail, node, activation, dict.fromkeys(_tensors(node)[:1], activation))
        elif target in FIXED:
            mark(node, _fixed(FIXED[target], activation), {node.args[0]: activation})
        elif target in MOVES:
            mark_shared(node, activation, only_quantized=False)

    def _annotate_layer(self, node: Node, config: QuantizationConfig) -> None:
        axis = LAYERS[node.target]  # type: ignore[index]
        if axis == 1 and argument(node, "groups") != 1:
            return  # with groups, no dim of a transposed weight has all output channels
        value, weight = node.args[0], node.args[1]
        inputs: dict[Any, QuantizationSpecBase] = {value: config.activation, weight: config.weight(axis)}
        bias = argument(node, "bias")
        if isinstance(bias, Node) and config.activation.dtype == torch.int8:
            observed: Any = [(value, node), (weight, node)]
            scheme = torch.per_channel_symmetric if config.is_per_channel else torch.per_tensor_symmetric
            inputs[bias] = DerivedQuantizationSpec(
                observed,
                _bias_parameters,
                torch.int32,
                -(2**31) + 1,
                2**31 - 1,
                scheme,
                0 if config.is_per_channel else None,
            )
        mark_fused(fused_tail(node, (NORMS, CLAMPS)), node, config.activation, inputs)


def _tensors(node: Node) -> list[Node]:
    return [arg for arg in node.args if isinstance(arg, Node) and is_float(arg)]


def _fixed(limits: tuple[float, float], activation: QuantizationSpec) -> FixedQParamsQuantizationSpec:
    """Return the parameters with which the integers of an activation cover a range of real numbers.

    A step is a power of two, so the greatest number is one step less than the upper limit.
    """
    low, high = limits
    if activation.dtype == torch.int16:
        return FixedQParamsQuantizationSpec(
            torch.int16, high / 2**15, 0, -32767, 32767, torch.per_tensor_symmetric
        )  # fmt: skip
    zero_point = -128 if low == 0 else 0
    return FixedQParamsQuantizationSpec(
        torch.int8, (high - low) / 256, zero_point, -128, 127, torch.per_tensor_affine
    )  # fmt: skip


def _bias_parameters(observers: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (scales, zero points) of a bias: the product of the scales of the input and the weight, and 0."""
    (value, _), (weights, _) = (observer.calculate_qparams() for observer in observers)
    scales = (value * weights).to(torch.float32)
    return scales, torch.zeros_like(scales, dtype=torch.int32)
