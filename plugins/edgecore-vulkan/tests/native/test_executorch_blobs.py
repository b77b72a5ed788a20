"""Run files that executorch's own Vulkan partitioner made: its blobs name textures, packed layouts and aliases."""

from __future__ import annotations

import pytest
import torch
from executorch_device import check_on_device
from torch import nn

QUICK = "unet"
NETWORKS = (QUICK, "mobilenet_v2", "mobilenet_v3_small", "resnet18", "efficientnet_b0", "bert_mini")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == QUICK else pytest.mark.full) for name in NETWORKS]
)
def test_networks_of_executorch_run_on_the_device(name):
    from zoo import make

    if name == "bert_mini":
        pytest.importorskip("transformers")
    model, inputs = make(name)
    if inputs[0].dim() == 4:
        inputs = (torch.randn(1, 3, 64, 64),)
    # executorch leaves the additions of BERT's boolean masks to its kernels, which splits the network.
    check_on_device(model, *inputs, delegates=9 if name == "bert_mini" else 1)


class OtherNames(nn.Module):
    """Operators that executorch writes under other names than edgecore, or with results that nothing reads."""

    def forward(self, x, numbers):
        return nn.functional.max_pool2d(x, 2) + torch.ones(3), numbers.to(torch.float32) * 0.5


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
def test_other_names_of_operators_are_understood(half):
    inputs = (torch.randn(1, 8, 6, 6), torch.arange(15, dtype=torch.int32).view(3, 5))
    check_on_device(OtherNames(), *inputs, force_fp16=half, tolerance=1e-2 if half else 1e-4)
