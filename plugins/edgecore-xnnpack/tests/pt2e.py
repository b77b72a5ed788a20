"""PT2E quantization of a module with our quantizer. Importing this needs torchao."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from edgecore_xnnpack.quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

PER_CHANNEL = get_symmetric_quantization_config(is_per_channel=True)


def converted(module: nn.Module, inputs: tuple[Any, ...], quantizer: XNNPACKQuantizer | None = None) -> Any:
    """The module with quantize and dequantize nodes, observed on `inputs`."""
    quantizer = quantizer or XNNPACKQuantizer().set_global(PER_CHANNEL)
    observed = prepare_pt2e(torch.export.export(module.eval(), inputs).module(), quantizer)
    observed(*inputs)
    return convert_pt2e(observed)


class Mixed(nn.Module):
    """A convolution and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(1, 2, 1), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.conv(x).flatten(1))  # type: ignore[no-any-return]
