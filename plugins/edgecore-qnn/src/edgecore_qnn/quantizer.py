"""The quantizer of the QNN backend for torchao: it annotates the values of a model that become integers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization import PerGroup
from torchao.quantization.pt2e.observer import MappingType, MinMaxObserver
from torchao.quantization.pt2e.quantizer import (
    QuantizationSpec,
    QuantizationSpecBase,
)

from edgecore.sdk import SMALLEST_SCALE
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
    mark,
    mark_fused,
    mark_shared,
    mark_split,
    operators,
    weight_spec,
    with_roles,
)
from edgecore.sdk.torch_compat import AffineQuantizedMinMaxObserver, OpOverload

aten = torch.ops.aten

LINEAR = frozenset({aten.linear.default})

TWO_INPUTS = with_roles(Role.BINARY, Role.PRODUCT)
ONE_INPUT = with_roles(Role.CLAMP, Role.ACTIVATION, Role.SCALAR) | operators(
    """
    exp log sqrt abs neg sin cos prelu layer_norm log_softmax.int sum.dim_IntList mean.dim avg_pool2d
    adaptive_avg_pool2d upsample_bilinear2d.vec
    """
)
"""Operators whose result and first tensor that is not constant are quantized."""

FIXED = with_roles(Role.FIXED)
"""Operators with a known output range."""

MOVES = (
    with_roles(
        *(Role.EXTREME, Role.VIEW, Role.VIEW_VARIANT, Role.IDENTITY, Role.COPY, Role.PART, Role.REPEAT, Role.PAD),
        Role.JOIN,
    )
    | operators("max_pool2d upsample_nearest2d.vec flip pixel_shuffle")
) - operators("max min mT swapaxes movedim.int movedim.intlist detach_ narrow tile")
"""Operators whose inputs and result share quantization parameters."""

SPLITS = with_roles(Role.SPLIT) - operators("tensor_split.sections tensor_split.indices")
"""Operators that return a list of results, which all share the quantization parameters of the input."""

_BITS_OF_4 = (-7, 7)
_BITS_OF_8 = (-127, 127)
_FOUR_BITS = "use_16a4w", "use_16a4w_block"
_BLOCK = 32
_STEP_OF_BLOCKS = 8


class QuantDtype(Enum):
    """Bits of activations (`a`) and weights (`w`). `block`: linear layers have a scale per block of input features."""

    use_8a8w = "8a8w"
    use_16a8w = "16a8w"
    use_16a16w = "16a16w"
    use_16a4w = "16a4w"
    use_16a4w_block = "16a4w_block"


@dataclass(frozen=True)
class ModuleQConfig:
    """Quantization of a part of a model.

    Attributes:
        quant_dtype: Bits of activations and weights.
        is_qat: True for quantization-aware training.
        is_conv_per_channel: Give weights of convolutions a scale per output channel.
        is_linear_per_channel: Give weights of linear layers a scale per output channel.
        act_observer: Class of torchao that chooses the ranges of activations; ignored for training.
        act_symmetric: Put the zero point of activations in the middle of the integer range.
        eps: Minimum scale of activations; None for `edgecore.sdk.SMALLEST_SCALE`.

    Raises:
        ValueError: `is_qat` with `use_16a4w_block`, which does not support training.
    """

    quant_dtype: QuantDtype = QuantDtype.use_8a8w
    is_qat: bool = False
    is_conv_per_channel: bool = False
    is_linear_per_channel: bool = False
    act_observer: Any = None
    act_symmetric: bool = False
    eps: float | None = None

    def __post_init__(self) -> None:
        if self.is_qat and self.quant_dtype is QuantDtype.use_16a4w_block:
            raise ValueError("is_qat: weights with a scale for each block cannot be trained; train with use_16a4w")

    @property
    def activation(self) -> QuantizationSpec:
        """The specification of activations."""
        dtype = torch.uint8 if self.quant_dtype is QuantDtype.use_8a8w else torch.uint16
        low, high = 0, torch.iinfo(dtype).max
        scheme = torch.per_tensor_symmetric if self.act_symmetric else torch.per_tensor_affine
        eps = self.eps or SMALLEST_SCALE
        observer = activation_observer(self.act_observer or MinMaxObserver, low, high, is_qat=self.is_qat, eps=eps)
        return QuantizationSpec(dtype, observer, low, high, scheme)

    def weight(self, axis: int | None) -> QuantizationSpec:
        """Return the specification of a weight with a scale per index of the dim `axis`; None for a single scale."""
        dtype = torch.int8
        low, high = _BITS_OF_4 if self.quant_dtype.name in _FOUR_BITS else _BITS_OF_8
        if self.quant_dtype is QuantDtype.use_16a16w:
            dtype, (low, high), axis = torch.int16, (-32767, 32767), None
        return weight_spec(dtype, low, high, axis, is_qat=self.is_qat)

    def blocks(self, size: int) -> QuantizationSpec:
        """Return the specification of a matrix with a scale per `size` elements of a row."""
        observer = AffineQuantizedMinMaxObserver.with_args(
            mapping_type=MappingType.SYMMETRIC,
            target_dtype=torch.int8,
            granularity=PerGroup(size),
            eps=SMALLEST_SCALE,
            zero_point_dtype=torch.int64,
        )
        return QuantizationSpec(torch.int8, observer, *_BITS_OF_4)


class QnnQuantizer(ModuleQuantizer[ModuleQConfig]):
    """Annotates an exported model for `prepare_pt2e` and `prepare_qat_pt2e`. The default is 8 bits.

    The quantization of a node comes from the first of these that applies: functions of `add_custom_quant_annotations`;
    discarded nodes and operators; the first matching entry of `set_submodule_qconfig_list`; the default.
    """

    def __init__(self) -> None:
        super().__init__()
        self._custom: list[Callable[[GraphModule], None]] = []
        self._discarded: set[str] = set()
        self._discarded_ops: set[OpOverload] = set()
        self._submodules: list[tuple[Callable[[Node], bool], ModuleQConfig]] = []
        self._block_sizes: dict[str, tuple[int, ...]] = {}
        self.set_global(ModuleQConfig())

    def set_default_quant_config(
        self,
        quant_dtype: QuantDtype,
        is_qat: bool = False,
        is_conv_per_channel: bool = False,
        is_linear_per_channel: bool = False,
        act_observer: Any = None,
        act_symmetric: bool = False,
        eps: float | None = None,
    ) -> None:
        """Set the default quantization; see `ModuleQConfig`."""
        self.set_global(
            ModuleQConfig(
                quant_dtype, is_qat, is_conv_per_channel, is_linear_per_channel, act_observer, act_symmetric, eps
            )
        )

    def set_submodule_qconfig_list(
        self, submodule_qconfig_list: Sequence[tuple[Callable[[Node], bool], ModuleQConfig]]
    ) -> None:
        """Set pairs (predicate, quantization); the first pair whose predicate is true for a node applies to it."""
        self._submodules = list(submodule_qconfig_list)

    def add_custom_quant_annotations(self, custom_quant_annotations: Sequence[Callable[[GraphModule], None]]) -> None:
        """Add functions that annotate nodes of a model before the quantizer does."""
        self._custom += custom_quant_annotations

    def add_discard_nodes(self, nodes: Sequence[str]) -> None:
        """Add names of nodes that stay in floating point."""
        self._discarded |= set(nodes)

    def add_discard_ops(self, ops: Sequence[OpOverload]) -> None:
        """Add operators that stay in floating point."""
        self._discarded_ops |= set(ops)

    def set_block_size_map(self, block_size_map: Mapping[str, tuple[int, ...]]) -> None:
        """Set block sizes of linear layers with `use_16a4w_block`; the default is 32 features.

        Args:
            block_size_map: Maps the name of a node to `(1, size)`, where `size` is a multiple of 8.

        Raises:
            ValueError: The provider does not support the block size. `annotate` raises it for a node that is not a
                linear layer, or whose number of features is not a multiple of the size.
        """
        for name, block in block_size_map.items():
            if len(block) != 2 or block[0] != 1 or block[1] < 1 or block[1] % _STEP_OF_BLOCKS:
                raise ValueError(f"the block size of {name} is {block}: blocks are (1, size), with a multiple of 8")
        self._block_sizes = dict(block_size_map)

    def annotate(self, model: GraphModule) -> GraphModule:
        """Write annotations into the `meta` of the nodes; return `model`."""
        for annotate in self._custom:
            annotate(model)
        return super().annotate(model)

    def config_of(self, node: Node) -> ModuleQConfig | None:
        """Return the quantization of a node; None if it stays in floating point."""
        if node.name in self._discarded or node.target in self._discarded_ops:
            return None
        chosen = next((config for applies, config in self._submodules if applies(node)), None)
        return chosen or super().config_of(node)

    def annotate_node(self, node: Node, config: ModuleQConfig) -> None:
        """Annotate a node, including a batch norm or clamp that is fused with it."""
        target, activation = node.target, config.activation
        if target in LAYERS:
            _annotate_layer(node, config, self._block_size(node, config))
        elif target in TWO_INPUTS and len(float_args(node)) == 2:
            mark_fused(fused_tail(node, (NORMS, CLAMPS)), node, activation, dict.fromkeys(float_args(node), activation))
        elif target in TWO_INPUTS or target in ONE_INPUT:
            mark_fused(fused_tail(node, (CLAMPS,)), node, activation, dict.fromkeys(float_args(node)[:1], activation))
        elif target in FIXED:
            mark(node, fixed_spec(target, activation.dtype), {node.all_input_nodes[0]: activation})
        elif target in MOVES:
            mark_shared(node, activation, only_quantized=False)
        elif target is operator.getitem:
            mark_split(node, activation, SPLITS)

    def _block_size(self, node: Node, config: ModuleQConfig) -> int | None:
        """Return how many input features of a layer share a scale; None if all share one."""
        if config.quant_dtype is not QuantDtype.use_16a4w_block:
            return None
        chosen = self._block_sizes.get(node.name)
        if node.target not in LINEAR:
            if chosen is not None:
                raise ValueError(f"set_block_size_map: {node.name} is no linear layer, so its weight has no blocks")
            return None
        features = node.args[1].meta["val"].shape[1]  # type: ignore[union-attr]
        size = _BLOCK if chosen is None else chosen[1]
        if features % size == 0:
            return size
        if chosen is not None:
            raise ValueError(f"set_block_size_map: {node.name} has {features} features, not a multiple of {size}")
        return None


def _annotate_layer(node: Node, config: ModuleQConfig, block: int | None) -> None:
    is_per_channel = config.is_linear_per_channel if node.target in LINEAR else config.is_conv_per_channel
    axis = channel_dim(node) if is_per_channel else None
    value, weight = node.args[0], node.args[1]
    spec = config.weight(axis) if block is None else config.blocks(block)
    inputs: dict[Any, QuantizationSpecBase] = {value: config.activation, weight: spec}
    # The provider does not fuse a clamp with a layer that has a scale per block.
    tail = (NORMS, CLAMPS) if block is None else (NORMS,)
    mark_fused(fused_tail(node, tail), node, config.activation, inputs)


def get_submodule_type_predicate(module_type_str: str) -> Callable[[Node], bool]:
    """Return a predicate that is True for nodes of modules whose type name contains `module_type_str`."""
    return lambda node: any(module_type_str in _type_name(kind) for _, kind in _modules(node))


def get_submodule_name_predicate(module_name_str: str) -> Callable[[Node], bool]:
    """Return a predicate that is True for nodes of modules whose name contains `module_name_str`."""
    return lambda node: any(module_name_str in name for name, _ in _modules(node))


def _modules(node: Node) -> list[tuple[str, Any]]:
    return list(node.meta.get("nn_module_stack", {}).values())


def _type_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
