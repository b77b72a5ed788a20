"""Real architectures with seeded, calibrated random weights: `make(name)` gives a module in eval mode and its inputs.

Random networks as they are initialised collapse (MobileNetV2's outputs are of size 1e-9), and then everything agrees
with everything. Calibration gives batch norms the statistics of noise and leaves no parameter all zero, so that outputs
are of size 0.1 to 10 and move with the input.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import nn

Example = tuple[nn.Module, tuple[torch.Tensor, ...]]

_operators: list[torch.library.Library] = []  # a torch library lives as long as its object


def torchvision_models():
    """`torchvision.models`, also where torchvision's compiled part does not load (the PyPI wheel beside CPU torch)."""
    if not _operators and find_spec("torchvision") is not None:
        try:
            import torchvision
        except RuntimeError:
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
            library = torch.library.Library("torchvision", "FRAGMENT")
            for operator in ("nms", "qnms"):
                library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _operators.append(library)
    import torchvision.models

    return torchvision.models


class UNet(nn.Module):
    """Down, up and across: transposed convolution, bilinear resize, group norm, concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self.block(3, 16), self.block(16, 32), self.block(32, 64)])
        self.grow = nn.ConvTranspose2d(64, 32, 2, 2)
        self.up = nn.ModuleList([self.block(64, 32), self.block(48, 16)])
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(16, 5, 1)

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down[0](x)
        b = self.down[1](self.pool(a))
        c = self.down[2](self.pool(b))
        d = self.up[0](torch.cat([self.grow(c), b], 1))
        d = nn.functional.interpolate(d, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.head(self.up[1](torch.cat([d, a], 1)))


class SpeechLSTM(nn.Module):
    """Frames to classes, frame by frame."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(40, 128, 2, batch_first=True), nn.Linear(128, 10)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(frames)[0])


def separable(channels: int) -> nn.Sequential:
    """A depthwise and a pointwise convolution."""
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
        nn.Conv2d(channels, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
    )  # fmt: skip


class KeywordSpotting(nn.Module):
    """DS-CNN, small: 49 frames of 10 numbers each to 12 words."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 64, (10, 4), 2, (4, 1), bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.Dropout(0.2),
            *(separable(64) for _ in range(4)),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class EncoderLayer(nn.Module):
    """Attention of four heads and a hidden layer, each after a norm and added to what it gets."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.heads = 4
        self.query, self.key, self.value, self.out = (nn.Linear(size, size) for _ in range(4))
        self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)
        self.hidden = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.first(x)
        query, key, value = (
            layer(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        attended = nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.hidden(self.second(x))


class Encoder(nn.Module):
    """A small transformer encoder: 32 tokens of 64 numbers to 10 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(EncoderLayer(64), EncoderLayer(64), nn.LayerNorm(64))
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean(1))


class Entry(nn.Module):
    """One entry of what a model returns as a dict or tuple."""

    def __init__(self, model: nn.Module, key: str | int, **arguments: object) -> None:
        super().__init__()
        self.model, self.key, self.arguments = model, key, arguments

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x, **self.arguments)[self.key]


def _vision(name: str, size: int = 224, **arguments: object) -> Callable[[], Example]:
    return lambda: (getattr(torchvision_models(), name)(**arguments).eval(), (torch.randn(1, 3, size, size),))


def _deeplab() -> Example:
    models = torchvision_models().segmentation
    model = models.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)
    return Entry(model, "out").eval(), (torch.randn(1, 3, 224, 224),)


def _bert() -> Example:
    torchvision_models()  # transformers imports it
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, vocab_size=8000
    )
    return Entry(BertModel(config), 0, return_dict=False).eval(), (torch.randint(0, 1000, (1, 64)),)


ZOO: dict[str, Callable[[], Example]] = {
    name: _vision(name)
    for name in (
        "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "resnet18", "resnet50", "efficientnet_b0",
        "squeezenet1_0", "vit_b_16",
    )
}  # fmt: skip
ZOO["unet"] = lambda: (UNet().eval(), (torch.randn(1, 3, 128, 128),))
"""Networks that one XNNPACK delegate takes whole."""

ALL = ZOO | {
    "shufflenet_v2_x1_0": _vision("shufflenet_v2_x1_0"),
    "densenet121": _vision("densenet121"),
    "convnext_tiny": _vision("convnext_tiny"),
    "inception_v3": _vision("inception_v3", 299, init_weights=True),
    "deeplabv3_mobilenet_v3_large": _deeplab,
    "ds_cnn": lambda: (KeywordSpotting().eval(), (torch.randn(1, 1, 49, 10),)),
    "encoder": lambda: (Encoder().eval(), (torch.randn(1, 32, 64),)),
    "speech_lstm": lambda: (SpeechLSTM().eval(), (torch.randn(1, 50, 40),)),
    "bert_mini": _bert,
}


def other_inputs(inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Inputs of the same kind with other values."""
    return tuple(torch.rand_like(x) * 3 - 1 if x.is_floating_point() else x.flip(-1) + 1 for x in inputs)


def calibrate(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> nn.Module:
    """Give batch norms the statistics of noise, and values to parameters that are all zero; returns it in eval mode."""
    for parameter in model.parameters():
        if not parameter.detach().any():
            nn.init.normal_(parameter, std=0.02)
    norms = [
        module for module in model.modules() if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d))
    ]
    model.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # cumulative average
        norm.train()
    with torch.no_grad():
        for _ in range(2 if norms else 0):
            model(*map(_four, inputs))  # four, since pooled features are normalised too
    return model.eval()


def _four(x: torch.Tensor) -> torch.Tensor:
    return torch.randn(4, *x.shape[1:]) if x.is_floating_point() else x.repeat(4, *(1 for _ in x.shape[1:]))


def make(name: str) -> Example:
    """The model `name`, calibrated, and example inputs; the same at every call."""
    torch.manual_seed(0)
    model, inputs = ALL[name]()
    return calibrate(model, inputs), inputs
