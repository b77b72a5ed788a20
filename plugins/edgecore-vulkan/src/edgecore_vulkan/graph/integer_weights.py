"""Find weights of 4 or 8 bits: the integers and scales that a dequantize node of the program reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node

from edgecore.sdk import argument, is_dequantize
from edgecore.sdk.torch_compat import schema_of

ALIGNMENT = 4
"""ExecuTorch's delegate reads scales, biases and sums in vectors of this length."""

_NIBBLES = (-8, 7)


@dataclass(frozen=True, eq=False)
class IntegerWeight:
    """A quantized weight with the value integers * scales; its zero points are 0.

    Attributes:
        integers: int8, in the shape of the weight.
        scales: [channels, groups]: one scale per channel, or per group of consecutive elements of a row.
        axis: The dim of the channels.
    """

    integers: torch.Tensor
    scales: torch.Tensor
    axis: int = 0

    @property
    def has_4_bits(self) -> bool:
        """True if all integers are between -8 and 7, so that they fit into 4 bits."""
        if not self.integers.numel():
            return False
        low, high = self.integers.aminmax()
        return int(low) >= _NIBBLES[0] and int(high) <= _NIBBLES[1]

    @property
    def groups(self) -> int:
        """The number of scales per channel."""
        return self.scales.shape[1]

    def dequantized(self, dtype: torch.dtype) -> torch.Tensor:
        """Return the floating-point weight."""
        moved = self.integers.movedim(self.axis, 0)
        numbers = moved.reshape(*self.scales.shape, -1).to(dtype) * self.scales.to(dtype).unsqueeze(-1)
        return numbers.reshape(moved.shape).movedim(0, self.axis).contiguous()

    def with_whole_vectors(self) -> IntegerWeight:
        """Pad the matrix with rows of zeros to a multiple of `ALIGNMENT` rows, as ExecuTorch's delegate reads them."""
        missing = -self.integers.shape[0] % ALIGNMENT
        return IntegerWeight(F.pad(self.integers, (0, 0, 0, missing)), F.pad(self.scales, (0, 0, 0, missing)))

    def nibbles(self) -> torch.Tensor:
        """Pack the matrix into bytes: integer + 8, even columns in the low half; rows are padded to 8 columns."""
        integers = F.pad(self.integers, (0, -self.integers.shape[1] % 8))
        shifted = (integers + 8).to(torch.uint8)
        return shifted[:, 1::2] << 4 | shifted[:, ::2]


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """Pad the last dim of a tensor with zeros to a multiple of `ALIGNMENT`."""
    return F.pad(tensor, (0, -tensor.shape[-1] % ALIGNMENT)).contiguous()


def weight_of(node: Any, constant: Callable[[Node], torch.Tensor | None]) -> IntegerWeight | None:
    """Return the weight that a dequantize node computes from constants; None for other nodes and nonzero zero points.

    Args:
        node: An argument of a call.
        constant: Returns the tensor of a constant node, and None for other nodes.
    """
    if not is_dequantize(node) or constant(node.args[0]) is None:
        return None
    integers = constant(node.args[0])
    name = str(node.target.__name__).partition(".")[0]
    scale, zeros = (_parameter(node, key, constant) for key in ("scale", "zero_point"))
    if integers is None or integers.dtype != torch.int8 or scale is None or (zeros is not None and zeros.any()):
        return None
    if name == "dequantize_per_channel":
        axis = argument(node, "axis") % integers.dim()
        return IntegerWeight(integers, scale.reshape(-1, 1), axis)
    if name == "dequantize_per_channel_group":
        return IntegerWeight(integers, scale.reshape(integers.shape[0], -1))
    if name == "dequantize_per_tensor" and integers.dim():
        return IntegerWeight(integers, scale.reshape(1, 1).expand(integers.shape[0], 1).contiguous())
    return None


def _parameter(node: Node, name: str, constant: Callable[[Node], torch.Tensor | None]) -> torch.Tensor | None:
    """Return the scale or zero point of a dequantize node as a tensor; None if it is missing or computed."""
    names = {spec.name for spec in schema_of(node.target).arguments}
    value = argument(node, name if name in names else f"{name}s")
    if isinstance(value, Node):
        return constant(value)
    return None if value is None else torch.tensor(value)


def evaluated(node: Any, constant: Callable[[Node], torch.Tensor | None]) -> torch.Tensor | None:
    """Return the tensor that a dequantize node computes from constants; None for other nodes."""
    if not is_dequantize(node):
        return None
    tensors = {source: constant(source) for source in node.all_input_nodes}
    if any(tensor is None for tensor in tensors.values()):
        return None
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), tensors.__getitem__)
    result: torch.Tensor = node.target(*args, **kwargs)
    return result
