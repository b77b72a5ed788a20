"""ExecuTorch's `XNNPACKQuantizer`, which has more methods than edgecore's class."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.fx import Node

from edgecore.sdk.torch_compat import OpOverload, OpOverloadPacket
from edgecore_xnnpack import quantizer
from edgecore_xnnpack.quantizer import QuantizationConfig


class XNNPACKQuantizer(quantizer.XNNPACKQuantizer):
    """edgecore's quantizer for XNNPACK with ExecuTorch's additional methods."""

    def __init__(self) -> None:
        """Create a quantizer without any configuration."""
        super().__init__()
        self._filter: Callable[[Node], bool] | None = None

    def set_module_type(
        self, module_type: type[torch.nn.Module], quantization_config: QuantizationConfig | None
    ) -> XNNPACKQuantizer:
        """Set the configuration of operators in modules of a type."""
        return self.set_object_type(module_type, quantization_config)

    def set_operator_type(
        self, operator_type: OpOverload | OpOverloadPacket, quantization_config: QuantizationConfig | None
    ) -> XNNPACKQuantizer:
        """Set the configuration of calls of an operator, such as `torch.ops.aten.linear.default`."""
        is_overload = isinstance(operator_type, OpOverload)
        return self.set_object_type(operator_type.overloadpacket if is_overload else operator_type, quantization_config)

    def set_filter_function(self, filter_fn: Callable[[Node], bool]) -> XNNPACKQuantizer:
        """Quantize only operators for which the function returns True."""
        self._filter = filter_fn
        return self

    def annotate_node(self, node: Node, config: QuantizationConfig) -> None:
        """Annotate a node and the operators fused with it, unless the filter excludes it."""
        if self._filter is None or self._filter(node):
            super().annotate_node(node, config)
