"""Time fp32 layers with each tile of edgecore-xnnpack, forced by `tile_rows` and `tile_columns`, beside its own choice.

    python benchmarks/tiles.py [--threads 1] [--rounds 20] [--tiles 7x32 7x16]      by default: all tiles of this processor

The layers are the convolutions of layers/layers.csv, and grouped ones of RegNetY-400MF and ResNeXt-50. The loads run in
turns in one process, with images in channels-last order; the times are the smallest of all turns, in microseconds.
Winograd's algorithm is off, so that 3x3 layers have tiles, too. The last line has the sums.
"""

import argparse
import csv
import re
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import edgecore
from edgecore.errors import ExecutionError

LAYERS = Path(__file__).parent / "layers" / "layers.csv"
GROUPED = (  # size, channels, outputs, kernel, stride, groups
    (56, 48, 48, 3, 1, 6), (28, 104, 104, 3, 1, 13), (14, 208, 208, 3, 1, 26), (7, 440, 440, 3, 1, 55),
    (56, 128, 128, 3, 1, 32), (28, 256, 256, 3, 1, 32), (14, 512, 512, 3, 1, 32), (7, 1024, 1024, 3, 1, 32),
)  # fmt: skip

Layer = tuple[int, ...]


def layers() -> list[Layer]:
    with LAYERS.open() as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "conv"]
    names = ("size", "in", "out", "kernel", "stride")
    return [(*(int(row[name]) for name in names), 1) for row in rows] + list(GROUPED)


def load(file: bytes, threads: int, **options: int) -> Any:
    return edgecore.load(file, threads=threads, options={"xnnpack": {"winograd": "off", **options}})["forward"]


def tiles_here(file: bytes) -> list[str]:
    """The tiles of this processor, which the refusal of a tile names."""
    try:
        load(file, 1, tile_columns=255)
    except ExecutionError as error:
        return re.findall(r"\d+x\d+", str(error).partition("the tiles of this processor are ")[2])
    return []


def times(loads: list[Any], x: torch.Tensor, rounds: int) -> list[float]:
    """The smallest time of a run of each load, in microseconds."""
    best = [float("inf")] * len(loads)
    for _ in range(rounds):
        for i, method in enumerate(loads):
            for _ in range(4):  # the first brings the load's weights into the cache
                begin = time.perf_counter()
                method(x)
                best[i] = min(best[i], (time.perf_counter() - begin) * 1e6)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tiles", nargs="+", metavar="ROWSxCOLUMNS")
    args = parser.parse_args()
    names: list[str] = args.tiles or []
    sums: list[float] = []
    for layer in layers():
        size, channels, outputs, kernel, stride, groups = layer
        net = nn.Conv2d(channels, outputs, kernel, stride, padding=kernel // 2, groups=groups).eval()
        x = torch.randn(1, channels, size, size).to(memory_format=torch.channels_last)
        file = bytes(edgecore.compile(net, (x,), backends=["xnnpack"]).buffer)
        if not sums:
            names = names or tiles_here(file)
            sums = [0.0] * (len(names) + 1)
            print("| layer | " + " | ".join(["own choice", *names]) + " |\n|---" + "|---" * len(sums) + "|")
        forced = [dict(zip(("tile_rows", "tile_columns"), map(int, name.split("x")))) for name in names]
        result = times([load(file, args.threads, **options) for options in ({}, *forced)], x, args.rounds)
        sums = [total + time for total, time in zip(sums, result)]
        label = f"{size}x{size} {channels}->{outputs} k{kernel} s{stride}" + (f" g{groups}" if groups > 1 else "")
        print(f"| {label} | " + " | ".join(f"{time:.0f}" for time in result) + " |", flush=True)
    print("| sums | " + " | ".join(f"{total:.0f}" for total in sums) + " |")


if __name__ == "__main__":
    main()
