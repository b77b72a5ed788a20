"""The `Quantizer` for torchao's PT2E quantization: it annotates the values to quantize for Core ML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.fx import Node
from torchao.quantization.pt2e.observer import MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantizer import QuantizationSpec

from edgecore.sdk import SMALLEST_SCALE, argument
from edgecore.sdk.annotations import (
    LAYERS,
    NORMS,
    OBSERVERS,
    ModuleQuantizer,
    Role,
    channel_dim,
    float_args,
    fused_tail,
    mark,
    mark_fused,
    mark_shared,
    operators,
    with_roles,
)

aten = torch.ops.aten

_UNSIGNED = operators("relu relu_ relu6 relu6_ sigmoid hardsigmoid softmax.int")
"""Operators with non-negative results, for which all 256 integers represent non-negative numbers."""
_ACTIVATIONS = with_roles(Role.CLAMP, Role.FIXED, Role.ACTIVATION) - operators("clamp clamp_ softmax.int _softmax")
_SUMS = operators("add.Tensor add_.Tensor mul.Tensor mul_.Tensor matmul")
_MOVES = with_roles(Role.VIEW, Role.IDENTITY) | operators("max_pool2d avg_pool2d adaptive_avg_pool2d")
"""Operators whose result has the quantization parameters of the input, so that the next layer reads integers."""
_OBSERVERS = {
    "moving_average_min_max": "moving-average", "ema_min_max": "moving-average", "min_max": "minmax",
}  # fmt: skip
"""Maps coremltools' names of observers to edgecore's. coremltools' `ema_min_max` is a moving average, too."""


@dataclass(frozen=True)
class Scheme:
    """A quantization scheme: how to quantize the layers of a module.

    Attributes:
        weight_bits: 4 or 8; None for floating-point weights.
        weight_dtype: Dtype of weights: torch.int8 or torch.uint8.
        is_per_channel: Weights have a scale per output channel.
        has_activations: Quantize activations to uint8.
        has_symmetric_weights: The zero point of weights is the middle of the integer range.
        has_symmetric_activations: The zero point of uint8 activations is 128, or 0 for non-negative results.
        observer: How activation ranges are observed in calibration, by its name in `edgecore.Recipe`.
    """

    weight_bits: Literal[4, 8] | None = 8
    weight_dtype: torch.dtype = torch.int8
    is_per_channel: bool = True
    has_activations: bool = True
    has_symmetric_weights: bool = True
    has_symmetric_activations: bool = True
    observer: Literal["histogram", "minmax", "moving-average"] = "moving-average"

    def activation(self, tail: Node | None) -> QuantizationSpec | None:
        """Return the specification of the activation that node `tail` computes; None if it stays in floating point."""
        if not self.has_activations:
            return None
        is_affine = not self.has_symmetric_activations or (tail is not None and tail.target in _UNSIGNED)
        scheme = torch.per_tensor_affine if is_affine else torch.per_tensor_symmetric
        # Pass no integer limits: with uint8's limits 0 and 255, torchao's symmetric zero point would be 127, not 128.
        return QuantizationSpec(torch.uint8, OBSERVERS[self.observer].with_args(eps=SMALLEST_SCALE), qscheme=scheme)

    def weight(self, axis: int | None) -> QuantizationSpec | None:
        """Return the specification of a weight whose output channels are dim `axis`; None for a float weight."""
        if self.weight_bits is None:
            return None
        low, high = (0, (1 << self.weight_bits) - 1) if self.weight_dtype == torch.uint8 else _signed(self)
        if not self.is_per_channel or axis is None:
            scheme = torch.per_tensor_symmetric if self.has_symmetric_weights else torch.per_tensor_affine
            return QuantizationSpec(self.weight_dtype, MinMaxObserver.with_args(eps=SMALLEST_SCALE), low, high, scheme)
        scheme = torch.per_channel_symmetric if self.has_symmetric_weights else torch.per_channel_affine
        observer = PerChannelMinMaxObserver.with_args(eps=SMALLEST_SCALE)
        return QuantizationSpec(self.weight_dtype, observer, low, high, scheme, ch_axis=axis)


def _signed(scheme: Scheme) -> tuple[int, int]:
    limit = 1 << ((scheme.weight_bits or 8) - 1)
    return (1 - limit if scheme.has_symmetric_weights else -limit), limit - 1


class CoreMLQuantizer(ModuleQuantizer[Scheme]):
    """Annotates the values of an exported model that Core ML quantizes, for torchao's `prepare_pt2e`.

    Args:
        config: A `coremltools.optimize.torch.quantization.LinearQuantizerConfig`, or None for 8-bit weights and
            activations, as in coremltools' defaults. `milestones` (used in training) and `non_traceable_module_names`
            are ignored.

    Raises:
        ValueError: The configuration has settings that PT2E quantization for Core ML does not support.
    """

    def __init__(self, config: Any = None) -> None:
        super().__init__()
        if config is None:
            self.set_global(Scheme())
            return
        self.set_global(_scheme(config.global_config))
        for kind, settings in config.module_type_configs.items():
            self.set_object_type(_module_type(kind), _scheme(settings))
        for name, settings in config.module_name_configs.items():
            self.set_module_name(name, _scheme(settings))

    def annotate_node(self, node: Node, config: Scheme) -> None:
        """Annotate a layer or another operator, together with the batch norm and activation that are fused with it."""
        if node.target in LAYERS:
            tail = fused_tail(node, (NORMS, _ACTIVATIONS))
            inputs = {node.args[0]: config.activation(_source(node)), node.args[1]: config.weight(channel_dim(node))}
            specs = {source: spec for source, spec in inputs.items() if spec is not None}
            mark_fused(tail, node, config.activation(tail), specs)
        elif node.target is aten.embedding.default:
            if (weight := config.weight(0)) is not None:
                mark(node, None, {node.args[0]: weight})
        elif config.has_activations and node.target in _SUMS:
            tensors = float_args(node)
            is_matrix = node.target is aten.matmul.default and _is_matrix(node.args[1])
            if len(tensors) == 2 and (is_matrix or all(tensor.op != "get_attr" for tensor in tensors)):
                tail = fused_tail(node, (NORMS, _ACTIVATIONS))
                specs = {tensor: config.activation(tensor) for tensor in tensors}
                specs |= {node.args[1]: config.weight(1)} if is_matrix else {}
                mark_fused(tail, node, config.activation(tail), specs)
        elif config.has_activations and node.target in _MOVES:
            mark_shared(node, config.activation(_source(node)))


def _source(node: Node) -> Node | None:
    source = argument(node, "input") if node.target in LAYERS else node.args[0]
    return source if isinstance(source, Node) else None


def _is_matrix(value: Any) -> bool:
    """Return True for a constant 2-D tensor. In a matmul, the output channels of the second factor are its dim 1."""
    return isinstance(value, Node) and value.op == "get_attr" and value.meta["val"].dim() == 2


def _module_type(kind: Any) -> type[torch.nn.Module]:
    module = getattr(torch.nn, kind, None) if isinstance(kind, str) else kind
    if not isinstance(module, type) or not issubclass(module, torch.nn.Module):
        raise ValueError(f"module_type_configs has {kind!r}: give the class of a module, or its name in torch.nn")
    return module


def _scheme(settings: Any) -> Scheme | None:
    """Convert coremltools' `ModuleLinearQuantizerConfig` to a quantization scheme; None to stay in floating point."""
    if settings is None:
        return None
    if settings.algorithm != "vanilla":
        raise ValueError(f"algorithm={settings.algorithm!r} needs training with coremltools; PT2E has 'vanilla'")
    is_float = settings.weight_dtype == torch.float32
    if is_float and settings.activation_dtype != torch.float32:
        raise ValueError(
            "weight_dtype=torch.float32 needs activation_dtype=torch.float32: Core ML reads both as integers"
        )
    is_symmetric = settings.quantization_scheme.value == "symmetric"
    return Scheme(
        weight_bits=None if is_float else settings.weight_n_bits,
        weight_dtype=torch.uint8 if settings.weight_dtype in (torch.quint8, "quint4") else torch.int8,
        is_per_channel=settings.weight_per_channel,
        has_activations=settings.activation_dtype != torch.float32,
        has_symmetric_weights=is_symmetric,
        has_symmetric_activations=is_symmetric,
        observer=_OBSERVERS[settings.activation_observer.value],  # type: ignore[arg-type]
    )
