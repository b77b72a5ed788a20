"""Time single layers of edgecore's own kernels on int16 values, on int8 values and in fp32: microseconds and ratios.

    python benchmarks/instructions/integer_layers.py [--threads 1] [--rounds 30]

The weights are int8 in both integer forms; all numbers are random. The three programs of a layer run in turns in one
process; the times are the smallest of all turns.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import edgecore
from edgecore.ir.operators import integer_operators  # noqa: F401  (registers the operators)

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolution 3 x 3, 64 to 64 channels, 28 x 28": (lambda: nn.Conv2d(64, 64, 3, padding=1), (1, 64, 28, 28)),
    "convolution 1 x 1, 64 to 64 channels, 28 x 28": (lambda: nn.Conv2d(64, 64, 1), (1, 64, 28, 28)),
    "convolution 1 x 1, 256 to 256 channels, 14 x 14": (lambda: nn.Conv2d(256, 256, 1), (1, 256, 14, 14)),
    "depthwise 3 x 3, 64 channels, 56 x 56": (lambda: nn.Conv2d(64, 64, 3, padding=1, groups=64), (1, 64, 56, 56)),
    "depthwise 3 x 3, stride 2, 64 channels, 56 x 56": (
        lambda: nn.Conv2d(64, 64, 3, stride=2, padding=1, groups=64),
        (1, 64, 56, 56),
    ),
    "linear, 1 row, 1024 to 1024": (lambda: nn.Linear(1024, 1024), (1, 1024)),
    "linear, 64 rows, 512 to 512": (lambda: nn.Linear(512, 512), (64, 512)),
}
"""Name -> the layer, and the shape of its inputs."""


class IntegerLayer(nn.Module):
    """The operator on int8 or int16 values for a convolution or a linear layer, with random numbers.

    Args:
        layer: The layer in floating point.
        dtype: torch.int8 or torch.int16.
    """

    def __init__(self, layer: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        weight: Any = layer.weight
        bits = weight[0].numel().bit_length() // 2
        is_int8 = dtype == torch.int8
        numbers = torch.tensor([99, 2**30 + 9, -7 - bits] if is_int8 else [99, 40000, 23 + bits])
        self.register_buffer("weight", torch.randint(-127, 128, weight.shape, dtype=torch.int8))
        channels = numbers[:, None].repeat(1, len(weight))
        self.register_buffer("channels", channels.int() if is_int8 else channels)
        self.geometry: list[Any] = []
        if isinstance(layer, nn.Conv2d):
            lists = layer.stride, layer.padding, layer.dilation, (1, 1), (0, 0)
            self.geometry = [*(list(values) for values in lists), layer.groups]
        kind = "convolution" if self.geometry else "linear"
        self.operator = getattr(torch.ops.edgecore, f"{'int8' if is_int8 else 'int16'}_{kind}")
        zero_points = [3, 5] if self.geometry else [3]
        self.range = [*zero_points, -128, 127] if is_int8 else [-32768, 32767]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.operator(x, self.weight, self.channels, *self.geometry, *self.range)


def random_values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.float32:
        return torch.randn(shape)
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max + 1, shape, dtype=dtype)


def loaded(layer: nn.Module, dtype: torch.dtype, shape: tuple[int, ...], threads: int) -> Callable[[], Any]:
    """Return a call of the layer, compiled for values of the dtype."""
    x = random_values(shape, dtype)
    model = layer if dtype == torch.float32 else IntegerLayer(layer, dtype)
    with tempfile.TemporaryDirectory() as folder:
        pte = Path(folder) / "layer.pte"
        edgecore.compile(model.eval(), (x,), runtime="edgecore").save(pte)
        method = edgecore.load(pte.read_bytes(), threads=threads)["forward"]
    return lambda: method(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"{'microseconds':48}{'int16':>8}{'int8':>8}{'fp32':>8}  int16 to int8  int16 to fp32")
    for name, (make, shape) in LAYERS.items():
        layer = make()
        calls = [loaded(layer, dtype, shape, options.threads) for dtype in (torch.int16, torch.int8, torch.float32)]
        best = [float("inf")] * len(calls)
        for _ in range(options.rounds):
            for index, call in enumerate(calls):
                for _ in range(4):  # the first call brings the weights into the cache
                    begin = time.perf_counter()
                    call()
                    best[index] = min(best[index], (time.perf_counter() - begin) * 1e6)
        ratios = best[0] / best[1], best[0] / best[2]
        print(f"{name:48}" + "".join(f"{value:8.1f}" for value in best) + "".join(f"{ratio:15.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
