"""Compile small models to the files that fuzzing starts from: `python -m fuzz.seeds FOLDER` in tests/.

`FOLDER/blob` gets the blobs of XNNPACK delegates, `FOLDER/model` the `.pte` files of the same models without a delegate.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import edgecore
from edgecore import format as fmt

LARGEST = 6000
"""Bytes of a file that is kept: an execution of a larger one takes longer, and few of its bytes are of interest."""


class Calls(nn.Module):
    """A function as a module, with the layers that it calls."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*self.layers, *inputs)


class Cache(nn.Module):
    """Attention over a cache that the model keeps between its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 12)
        self.register_buffer("k", torch.zeros(1, 2, 6, 2))
        self.register_buffer("v", torch.zeros(1, 2, 6, 2))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(1, 1, 2, 2).transpose(1, 2) for part in self.project(x).split(4, -1))
        self.k.index_copy_(2, position, k)
        self.v.index_copy_(2, position, v)
        mask = torch.where(torch.arange(6) <= position, 0.0, -1e9).view(1, 1, 1, 6)
        return functional.scaled_dot_product_attention(q, self.k, self.v, mask)


@dataclass(frozen=True)
class Model:
    """A model with its example inputs, and settings of `edgecore.compile`."""

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
    settings: dict[str, Any] = field(default_factory=dict)


IMAGE, ROWS, BATCH = (1, 4, 6, 6), (3, 8), (2, 3, 4)
UNARY = {
    "signs": lambda x: (x.abs(), x.neg(), x.floor(), x.ceil()),
    "roots": lambda x: (x.abs().sqrt(), (x * x + 1).rsqrt(), x.square(), (x.abs() + 1).log(), x.exp()),
    "waves": lambda x: (x.sin(), x.cos(), x.tanh(), x.sigmoid()),
    "gates": lambda x: (functional.gelu(x), functional.hardswish(x), functional.elu(x), functional.leaky_relu(x, 0.1)),
    "bounds": lambda x: (x.clamp(-1, 1), functional.relu6(x), functional.softmax(x, -1), x.mean(-1), x.sum(0)),
}
BINARY = {
    "sums": lambda x, y: (x + y, x - y[0]),
    "products": lambda x, y: (x * y, x / (y.abs() + 1), torch.maximum(x, y), torch.minimum(x, y[:1])),
    "joins": lambda x, y: (torch.cat([x, y]), torch.cat([x, y, x], 1), torch.cat([x, y, x, y, x], -1)),
    "chosen": lambda x, y: (torch.where(x > y, x, y), x.eq(y)),
}
MOVED = {
    "moves": lambda x: (x.permute(0, 2, 3, 1), x.reshape(2, -1), x[:, 1:3, ::2], functional.pad(x, (1, 2, 0, 1))),
    "parts": lambda x: (x.split(2, 1)[1], x.transpose(1, 2), x.flatten(1), x.mean((2, 3))),
    "sizes": lambda x: functional.interpolate(x, size=(3, 9), mode="bilinear"),
    "pools": lambda x: (
        functional.max_pool2d(x, 2),
        functional.avg_pool2d(x, 3, 2, 1),
        functional.adaptive_avg_pool2d(x, 1),
    ),
}
LAYERS = {
    "convolution": (nn.Conv2d(4, 6, 3, 2, 1), IMAGE),
    "depthwise": (nn.Sequential(nn.Conv2d(4, 8, 3, padding=1, groups=4), nn.ReLU6(), nn.Conv2d(8, 2, 1)), IMAGE),
    "transposed": (nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1), IMAGE),
    "norms": (nn.Sequential(nn.BatchNorm2d(4), nn.PReLU(4), nn.MaxPool2d(3, 2, 1)), IMAGE),
    "perceptron": (nn.Sequential(nn.Linear(8, 4), nn.LayerNorm(4), nn.Linear(4, 2)), ROWS),
    "lstm": (nn.LSTM(4, 2), BATCH),
}


def models() -> Iterator[tuple[str, Model]]:
    """The models by name."""
    for functions, shape, count in ((UNARY, ROWS, 1), (BINARY, BATCH, 2), (MOVED, IMAGE, 1)):
        for name, function in functions.items():
            yield name, Model(Calls(function), tuple(torch.randn(shape) for _ in range(count)))
    for name, (layer, shape) in LAYERS.items():
        yield name, Model(layer, (torch.randn(shape),))
    heads = tuple(torch.randn(1, 2, 3, 4) for _ in range(3))
    yield "attention", Model(Calls(functional.scaled_dot_product_attention), heads)
    yield "products of matrices", Model(Calls(torch.matmul), (torch.randn(BATCH), torch.randn(2, 4, 5)))
    yield "indices", Model(Calls(lambda table, i: table(i), nn.Embedding(6, 4)), (torch.tensor([1, 5]),))
    yield "cache", Model(Cache(), (torch.randn(1, 1, 4), torch.tensor([2])), {"runtime": "edgecore"})
    rows = torch.export.Dim("rows", max=16)
    for name, layer in (("rows", nn.Linear(8, 4)), ("softmax", nn.Softmax(-1))):
        yield f"any {name}", Model(layer, (torch.randn(ROWS),), {"dynamic_shapes": ({0: rows},)})
    wide = torch.randn(1, 32)
    for recipe in ("fp16", "int8-dynamic", "int4-weights"):
        yield f"linear {recipe}", Model(nn.Linear(32, 6), (wide,), {"quantize": recipe})
    image = torch.randn(IMAGE)
    yield "convolution fp16", Model(LAYERS["depthwise"][0], (image,), {"quantize": "fp16"})
    for name in ("convolution", "depthwise", "transposed", "perceptron"):
        layer, shape = LAYERS[name]
        inputs = (torch.randn(shape),)
        yield f"{name} int8", Model(layer, inputs, {"quantize": "int8", "calibration": [inputs]})
    for name in ("moves", "pools"):
        convolution = nn.Conv2d(4, 4, 1)
        module = Calls(lambda layer, x, function=MOVED[name]: function(layer(x)), convolution)
        yield f"{name} int8", Model(module, (image,), {"quantize": "int8", "calibration": [(image,)]})


def write(folder: Path, name: str, content: bytes) -> None:
    """Write one seed, unless it is too large."""
    if len(content) <= LARGEST:
        (folder / name.replace(" ", "_")).write_bytes(content)


def main() -> None:
    folder = Path(sys.argv[1])
    for kind in ("blob", "model"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    for name, model in models():
        module = model.module.eval()
        if "quantize" not in model.settings:
            portable = edgecore.compile(module, model.inputs, backends=[], **model.settings)
            write(folder / "model", name, portable.buffer)
        delegated = edgecore.compile(module, model.inputs, backends=["xnnpack"], **model.settings)
        segments = fmt.read_pte(delegated.buffer).segments
        for index, segment in enumerate(segment for segment in segments if segment.kind == "delegate"):
            write(folder / "blob", f"{name} {index}", delegated.buffer[segment.offset :][: segment.size])


if __name__ == "__main__":
    main()
