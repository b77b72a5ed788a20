"""Measure lowering after `torch.export` against executorch, both with XNNPACK or both without a backend.

    python benchmarks/lowering.py [MODEL ...] [--zoo FILE] [--portable] [--rounds 3]

One process lowers each model with both toolchains in turns: `edgecore.compile(exported).buffer` against
`to_edge_transform_and_lower(exported, ...).to_executorch().buffer`. Each lowering gets a new exported program, and the
export is not measured. Both toolchains lower a small model first, so that imports do not count. The script prints the
medians, and the ratio of executorch's median to edgecore's. MODEL is a name of tests/zoo.py or of torchvision. With
--zoo, it is an argument of the function `make` in the Python file FILE, which returns a module and its inputs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import runpy
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

import edgecore

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import zoo

Lower = Callable[[torch.export.ExportedProgram], object]


def model_of(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Return a model with its example inputs."""
    if name in zoo.ALL:
        return zoo.make(name)
    models = zoo.torchvision_models()
    is_video = hasattr(models.video, name)
    make = getattr(models.video if is_video else models, name)
    inputs = torch.randn(1, 3, 8, 112, 112) if is_video else torch.randn(1, 3, 224, 224)
    return make(weights=None).eval(), (inputs,)


def seconds(lower: Lower, exported: torch.export.ExportedProgram) -> float:
    """Return the seconds that lowering takes; the output of the toolchain is discarded."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        start = time.perf_counter()
        lower(exported)
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["swin_t", "swin_v2_t", "swin3d_t", *zoo.ALL])
    parser.add_argument("--zoo", help="a Python file with a function make(MODEL)")
    parser.add_argument("--portable", action="store_true", help="lower without XNNPACK")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    backends = [] if arguments.portable else ["xnnpack"]

    def ours(exported: torch.export.ExportedProgram) -> object:
        return edgecore.compile(exported, backends=backends).buffer

    def peer(exported: torch.export.ExportedProgram) -> object:
        partitioner = None if arguments.portable else [XnnpackPartitioner()]
        return to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch().buffer

    for lower in (ours, peer):
        seconds(lower, torch.export.export(torch.nn.Linear(2, 2).eval(), (torch.randn(1, 2),)))
    print("| model | edgecore | executorch | ratio |\n|---|---|---|---|", flush=True)
    make = runpy.run_path(arguments.zoo)["make"] if arguments.zoo else model_of
    for name in arguments.models:
        model, inputs = make(name)
        times: dict[Lower, list[float]] = {ours: [], peer: []}
        for _ in range(arguments.rounds):
            for lower, found in times.items():
                found.append(seconds(lower, torch.export.export(model, inputs)))
        own, other = (statistics.median(found) for found in times.values())
        print(f"| {name} | {own:.2f} s | {other:.1f} s | {other / own:.1f} |", flush=True)


if __name__ == "__main__":
    main()
