"""Define the base class of the quantizers for TOSA targets, which annotates the values to quantize."""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.observer import (
    HistogramObserver,
)
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    QuantizationSpec,
    QuantizationSpecBase,
)

from edgecore.sdk import SMALLEST_SCALE, argument
from edgecore.sdk.annotations import (
    CLAMPS,
    LAYERS,
    NORMS,
    ModuleQuantizer,
    Role,
    activation_observer,
    channel_dim,
    fixed_spec,
    float_args,
    fused_tail,
    is_annotated,
    is_float,
    mark,
    mark_fused,
    mark_shared,
    mark_split,
    operators,
    weight_spec,
    with_roles,
)
from edgecore_tosa.quantization import parameters
from edgecore_tosa.quantization.attention import MASKS, decompose, is_mask
from edgecore_tosa.quantization.parameters import positive_factor
from edgecore_tosa.quantization.scales import LIMITS
from edgecore_tosa.schema import DType

aten = torch.ops.aten

PRODUCTS = with_roles(Role.PRODUCT)
"""Products of matrices. If a product with a positive number follows, the RESCALE of the matrix product's sums includes
this factor.
"""

QUOTIENTS = operators("div.Tensor div_.Tensor")
TWO_INPUTS = with_roles(Role.BINARY, Role.PRODUCT) - QUOTIENTS
HARDSIGMOIDS = operators("hardsigmoid hardsigmoid_")
ONE_INPUT = with_roles(Role.ACTIVATION, Role.UNARY, Role.SCALAR) | QUOTIENTS | HARDSIGMOIDS
"""Operators whose result and first tensor that is not constant are quantized."""

SELECTIONS = with_roles(Role.SELECTION)
"""Operators that select among values with different ranges; constants among the values need no observer."""

COMPARISONS = with_roles(Role.COMPARISON)
"""Operators with quantized inputs and a boolean result."""

FIXED = with_roles(Role.FIXED) - HARDSIGMOIDS
"""Operators with a known output range."""

MOVES = with_roles(
    *(Role.CLAMP, Role.AVERAGE, Role.EXTREME, Role.MAX_POOL, Role.RESAMPLE, Role.VIEW, Role.VIEW_VARIANT),
    *(Role.IDENTITY, Role.COPY, Role.PART, Role.REPEAT, Role.REORDER, Role.PAD, Role.JOIN, Role.GATHER),
) - operators("max_pool3d avg_pool1d adaptive_avg_pool1d adaptive_avg_pool3d")
"""Operators whose inputs and result share quantization parameters.

They include means, because an NPU computes a mean of integers in one operation if the scale does not change.
"""

SPLITS = with_roles(Role.SPLIT, Role.EXTREME_AND_INDEX)
"""Operators that return a list of results, which all share the quantization parameters of the input."""


@dataclass(frozen=True)
class QuantizationConfig:
    """The configuration by which the quantizer annotates a model or a part of it.

    Attributes:
        activation: The specification of activations.
        is_per_channel: True if weights have a scale per output channel, False for a single scale.
        is_qat: True for quantization-aware training.
        weight_range: Minimum and maximum of the integers of weights.
        eps: The smallest scale that quantization may use.
    """

    activation: QuantizationSpec
    is_per_channel: bool = True
    is_qat: bool = False
    weight_range: tuple[int, int] = (-127, 127)
    eps: float = SMALLEST_SCALE

    def weight(self, axis: int | None) -> QuantizationSpec:
        """Return the specification of an int8 weight: a scale per index of dim `axis`; one scale if `axis` is None."""
        return weight_spec(torch.int8, *self.weight_range, axis, is_qat=self.is_qat, eps=self.eps)


def get_symmetric_quantization_config(
    is_per_channel: bool = True,
    is_qat: bool = False,
    is_dynamic: bool = False,
    act_qmin: int = -128,
    act_qmax: int = 127,
    weight_qmin: int = -127,
    weight_qmax: int = 127,
    eps: float = SMALLEST_SCALE,
    *,
    observer: Any = HistogramObserver,
) -> QuantizationConfig:
    """Return the configuration for int8 activations and symmetric int8 weights (zero point 0).

    Args:
        is_per_channel: Give weights a scale per output channel instead of a single scale.
        is_qat: Insert fake quantization for quantization-aware training with `prepare_qat_pt2e`.
        is_dynamic: Must be False.
        act_qmin: Minimum of the integers of activations.
        act_qmax: Maximum of the integers of activations.
        weight_qmin: Minimum of the integers of weights.
        weight_qmax: Maximum of the integers of weights.
        eps: Minimum scale.
        observer: Class of torchao that chooses the ranges of activations; ignored for training.

    Raises:
        ValueError: `is_dynamic` is True: TOSA has no dynamic quantization.
    """
    if is_dynamic:
        raise ValueError("is_dynamic: TOSA has no quantization with ranges that are found at run time; use False")
    observed = activation_observer(observer, act_qmin, act_qmax, is_qat=is_qat, eps=eps)
    activation = QuantizationSpec(torch.int8, observed, act_qmin, act_qmax, torch.per_tensor_affine)
    return QuantizationConfig(activation, is_per_channel, is_qat, (weight_qmin, weight_qmax), eps)


def get_symmetric_a8w4_quantization_config(
    is_per_channel: bool = True,
    is_qat: bool = False,
    is_dynamic: bool = False,
    *,
    observer: Any = HistogramObserver,
) -> QuantizationConfig:
    """Return the configuration for int8 activations and symmetric int4 weights, from -7 to 7.

    `get_symmetric_quantization_config` describes the arguments.

    Raises:
        ValueError: `is_dynamic` is True.
    """
    low, high = LIMITS[DType.INT4]
    return get_symmetric_quantization_config(
        is_per_channel, is_qat, is_dynamic, weight_qmin=low, weight_qmax=high, observer=observer
    )


def get_symmetric_a16w8_quantization_config(
    is_per_channel: bool = True,
    is_qat: bool = False,
    is_dynamic: bool = False,
    weight_qmin: int = -127,
    weight_qmax: int = 127,
    epsilon: float = SMALLEST_SCALE,
    *,
    observer: Any = HistogramObserver,
) -> QuantizationConfig:
    """Return the configuration for symmetric int16 activations and symmetric int8 weights (zero points 0).

    `get_symmetric_quantization_config` describes the arguments.

    Raises:
        ValueError: `is_dynamic` is True.
    """
    if is_dynamic:
        raise ValueError("is_dynamic: TOSA has no quantization with ranges that are found at run time; use False")
    low, high = -32767, 32767
    observed = activation_observer(observer, low, high, is_qat=is_qat, eps=epsilon)
    activation = QuantizationSpec(torch.int16, observed, low, high, torch.per_tensor_symmetric)
    return QuantizationConfig(activation, is_per_channel, is_qat, (weight_qmin, weight_qmax), epsilon)


class TosaQuantizer(ModuleQuantizer[QuantizationConfig]):
    """Annotates the values to quantize in an exported model, for torchao's `prepare_pt2e` and `prepare_qat_pt2e`.

    A configuration for a module's name has precedence over one for its type, which has precedence over the global
    one. The configuration None leaves a module in floating point.
    """

    def __init__(self) -> None:
        super().__init__()
        self._io: QuantizationConfig | None = None

    def set_io(self, quantization_config: QuantizationConfig | None) -> TosaQuantizer:
        """Set the quantization configuration of the model's inputs and outputs; None leaves them in floating point."""
        self._io = quantization_config
        return self

    def set_module_type(
        self, module_type: type[torch.nn.Module], quantization_config: QuantizationConfig | None
    ) -> TosaQuantizer:
        """Set the quantization configuration of operators in modules of a type, such as `torch.nn.Linear`."""
        return self.set_object_type(module_type, quantization_config)

    def quantize_with_submodules(
        self, model: GraphModule, calibration_samples: Sequence[tuple[Any, ...]], is_qat: bool = False
    ) -> GraphModule:
        """Quantize a model and the branches of its `torch.cond`, and return the model.

        Args:
            model: The module of an exported program.
            calibration_samples: Inputs that take each branch at least once; for training, a few batches.
            is_qat: Use fake quantization, as for quantization-aware training.
        """
        prepare = prepare_qat_pt2e if is_qat else prepare_pt2e
        branches = [name for name, module in model.named_children() if isinstance(module, GraphModule)]
        prepared = prepare(model, self)
        of_branches = copy.copy(self)
        of_branches._is_branch = True
        for name in branches:
            setattr(prepared, name, prepare(getattr(prepared, name), of_branches))
        # Disable gradients: otherwise torch.cond traces its branches, and observers cannot be traced.
        with torch.no_grad():
            for sample in calibration_samples:
                prepared(*sample)
        for name in branches:
            setattr(prepared, name, convert_pt2e(getattr(prepared, name)))
        converted: GraphModule = convert_pt2e(prepared)
        return converted

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Decompose operators such as attention, so that their parts are quantized separately; return the model."""
        return decompose(model)

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotate the values of a model in the `meta` of its nodes; return `model`."""
        if self._io is not None:
            activation = self._io.activation
            for node in model.graph.nodes:
                if node.op == "placeholder" and is_float(node):
                    mark(node, activation, {})
            output = model.graph.output_node()
            results = [node for node in output.all_input_nodes if is_float(node)]
            mark(output, None, dict.fromkeys(results, activation))
        for node in model.graph.nodes:
            config = self.config_of(node) if node.target in COMPARISONS and not is_annotated(node) else None
            if config is not None:
                mark(node, None, dict.fromkeys(float_args(node), config.activation))
        return super().annotate(model)

    def annotate_node(self, node: Node, config: QuantizationConfig) -> None:
        """Annotate a node, together with a batch norm or clamp that is fused with it."""
        target, activation = node.target, config.activation
        if target in LAYERS:
            self._annotate_layer(node, config)
        elif target in TWO_INPUTS and len(float_args(node)) == 2:
            tail = fused_tail(node, (NORMS, CLAMPS))
            users = list(node.users)
            if target in PRODUCTS and len(users) == 1 and positive_factor(users[0]) is not None:
                tail = users[0]
            mark_fused(tail, node, activation, dict.fromkeys(float_args(node), activation))
        elif target in TWO_INPUTS or target in ONE_INPUT:
            tail = fused_tail(node, (CLAMPS,))
            mark_fused(tail, node, activation, dict.fromkeys(float_args(node)[:1], activation))
        elif target in SELECTIONS:
            computed = [source for source in float_args(node) if source.op != "get_attr"]
            mark(node, activation, dict.fromkeys(computed, activation))
        elif is_mask(node):
            mark(node, None, {node.args[0]: activation})
        elif target in MASKS:
            mark(node, activation, {node.args[0]: activation})
        elif target in FIXED:
            source = node.all_input_nodes[0]
            mark(node, fixed_spec(target, activation.dtype), {} if is_mask(source) else {source: activation})
        elif target in MOVES:
            mark_shared(node, activation, only_quantized=False)
        elif target is operator.getitem:
            _annotate_part(node, activation)

    def _annotate_layer(self, node: Node, config: QuantizationConfig) -> None:
        axis = channel_dim(node) if config.is_per_channel else None
        value, weight = node.args[0], node.args[1]
        inputs: dict[Any, QuantizationSpecBase] = {value: config.activation, weight: config.weight(axis)}
        bias = argument(node, "bias")
        if isinstance(bias, Node) and config.activation.dtype == torch.int8:
            observed: Any = [(value, node), (weight, node)]
            numbers = attrgetter(str(bias.target))(node.graph.owning_module) if bias.op == "get_attr" else None
            scheme = torch.per_tensor_symmetric if axis is None else torch.per_channel_symmetric
            inputs[bias] = DerivedQuantizationSpec(
                observed,
                partial(_bias_parameters, numbers),
                torch.int32,
                -(2**31) + 1,
                2**31 - 1,
                scheme,
                None if axis is None else 0,
            )
        mark_fused(fused_tail(node, (NORMS, CLAMPS)), node, config.activation, inputs)


def _annotate_part(node: Node, activation: QuantizationSpecBase) -> None:
    """Annotate a result of a split, or the first result of a norm, together with the split or norm itself."""
    if mark_split(node, activation, SPLITS):
        return
    split = node.args[0]
    assert isinstance(split, Node)
    source = split.args[0]
    if split.target in parameters.NORMS and isinstance(source, Node) and node.args[1] == 0:
        mark(split, None, {source: activation})
        mark(node, activation, {})


def _bias_parameters(bias: torch.Tensor | None, observers: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (scales, zero points) of a layer's bias: input scale * weight scale, and 0.

    If this scale is so small that the bias would exceed 32 bits, return a larger scale. The pass `fit_scales` later
    increases the scale of the weight accordingly.
    """
    (value, _), (weights, _) = (observer.calculate_qparams() for observer in observers)
    scales = (value * weights).to(torch.float32)
    if bias is not None:
        numbers = bias.detach().abs().float()
        scales = torch.maximum(scales, (numbers if scales.numel() > 1 else numbers.max()) / 2**30)
    return scales, torch.zeros_like(scales, dtype=torch.int32)
