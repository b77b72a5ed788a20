"""Count the instructions of single integer operators on a Cortex-M55 (MVE, DSP only, plain C) and a Cortex-M33.

The count of an operator is the count of a network with two such layers minus the count of a network with one.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

import edgecore

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "firmware"))
from firmware import build, count_instructions
from integer_layers import IntegerLayer, random_values

LAYERS = {
    "convolution 3 x 3, 32 to 32 channels": (lambda: nn.Conv2d(32, 32, 3, padding=1), (32, 10, 10)),
    "convolution 1 x 1, 32 to 32 channels": (lambda: nn.Conv2d(32, 32, 1), (32, 10, 10)),
    "depthwise 3 x 3, 32 channels": (lambda: nn.Conv2d(32, 32, 3, padding=1, groups=32), (32, 10, 10)),
    "linear, 128 to 128": (lambda: nn.Linear(128, 128), (128,)),
}
"""Operator -> its layer, and the shape of its inputs without the batch."""

PROCESSORS = {
    "MVE": ("cortex-m55", "-mcpu=cortex-m55 -mfloat-abi=hard"),
    "DSP": ("cortex-m55", "-mcpu=cortex-m55+nomve -mfloat-abi=hard"),
    "plain C": ("cortex-m55", "-march=armv8.1-m.main+fp.dp -mfloat-abi=hard"),
    "M33": ("cortex-m33", "-mcpu=cortex-m33+nofp -mfloat-abi=soft"),
}
"""Kind of machine code -> the processor, and the compiler options that produce this kind of code."""


def count(folder: Path, layer: str, dtype: torch.dtype, layers: int, code: str) -> int:
    """Return the number of instructions of one inference of a network with `layers` equal layers."""
    make, shape = LAYERS[layer]
    torch.manual_seed(0)
    pte = folder / "network.pte"
    modules = [make() for _ in range(layers)]
    if dtype == torch.int8:
        x = torch.randn(2, *shape)
        options: dict[str, Any] = {"quantize": "int8", "calibration": [x[:1]]}
    else:
        x = random_values((2, *shape), dtype)
        modules, options = [IntegerLayer(module, dtype) for module in modules], {}
    model = nn.Sequential(*modules).eval()
    edgecore.compile(model, (x[:1],), runtime="edgecore", memory="static", **options).save(pte)
    processor, chosen = PROCESSORS[code]
    flags = f"{chosen} -mthumb"
    cxx = f"{flags} -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit"
    elf = build(folder / "build", processor, [pte], f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={cxx}")
    return count_instructions(elf, processor, "network", x.numpy())


def main() -> None:
    print(f"{'thousands of instructions':48}" + "".join(f"{name:>10}" for name in PROCESSORS))
    for dtype in (torch.int8, torch.int16):
        for layer in LAYERS:
            counts = []
            for code in PROCESSORS:
                with tempfile.TemporaryDirectory() as path:
                    folder = Path(path)
                    counts.append(count(folder, layer, dtype, 2, code) - count(folder, layer, dtype, 1, code))
            name = f"{dtype}"[6:] + " " + layer
            print(f"{name:48}" + "".join(f"{number / 1000:10.1f}" for number in counts), flush=True)


if __name__ == "__main__":
    main()
