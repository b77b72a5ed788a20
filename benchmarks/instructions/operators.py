"""Count the instructions of single int8 operators on a Cortex-M55: with MVE, with DSP instructions only, and plain C.

The count of an operator is that of a network with two such layers less that of one with one layer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import edgecore

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "firmware"))
from firmware import build, count_instructions

LAYERS = {
    "convolution 3 x 3, 32 to 32 channels": (lambda: nn.Conv2d(32, 32, 3, padding=1), (32, 10, 10)),
    "convolution 1 x 1, 32 to 32 channels": (lambda: nn.Conv2d(32, 32, 1), (32, 10, 10)),
    "depthwise 3 x 3, 32 channels": (lambda: nn.Conv2d(32, 32, 3, padding=1, groups=32), (32, 10, 10)),
    "linear, 128 to 128": (lambda: nn.Linear(128, 128), (128,)),
}
"""Operator -> its layer, and the shape of its inputs without the batch."""

PROCESSORS = {
    "MVE": "-mcpu=cortex-m55",
    "DSP": "-mcpu=cortex-m55+nomve",
    "plain C": "-march=armv8.1-m.main+fp.dp",
}
"""Code -> the compiler's options for it."""


def count(folder: Path, layer: str, layers: int, processor: str) -> int:
    """Return how many instructions an inference of a network takes."""
    make, shape = LAYERS[layer]
    torch.manual_seed(0)
    x = torch.randn(2, *shape)
    model = nn.Sequential(*(make() for _ in range(layers))).eval()
    pte = folder / "network.pte"
    edgecore.compile(model, (x[:1],), runtime="edgecore", quantize="int8", memory="static", calibration=[x[:1]]).save(
        pte
    )
    flags = f"{processor} -mthumb -mfloat-abi=hard"
    cxx = f"{flags} -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit"
    elf = build(folder / "build", "cortex-m55", [pte], f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={cxx}")
    return count_instructions(elf, "cortex-m55", "network", x.numpy())


def main() -> None:
    print(f"{'thousands of instructions':40}" + "".join(f"{name:>10}" for name in PROCESSORS))
    for layer in LAYERS:
        counts = []
        for processor in PROCESSORS.values():
            with tempfile.TemporaryDirectory() as path:
                counts.append(count(Path(path), layer, 2, processor) - count(Path(path), layer, 1, processor))
        print(f"{layer:40}" + "".join(f"{number / 1000:10.1f}" for number in counts), flush=True)


if __name__ == "__main__":
    main()
