"""Video networks of torchvision beside eager PyTorch: time, error, and what is delegated.

    python benchmarks/volumes.py [r3d_18 ...] [--threads 2] [--rounds 7] [--frames 8]

The weights are random, the batch norms calibrated on noise. One process; eager, our file for XNNPACK and our file without
a backend take turns. Printed are the least times and their ratios to eager's: with one thread seconds of processor time,
which other processes hardly change, else of the clock.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from zoo import torchvision_models

import edgecore

BACKENDS = {"xnnpack": ["xnnpack"], "kernels": []}


def calibrated(name: str) -> torch.nn.Module:
    """The network in eval mode, its norms with the statistics of noise."""
    torch.manual_seed(0)
    model = getattr(torchvision_models().video, name)(weights=None).train()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm3d):
            module.momentum = None  # cumulative average
    with torch.no_grad():
        model(torch.randn(2, 3, 8, 112, 112))
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["r3d_18", "mc3_18", "r2plus1d_18"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--frames", type=int, default=8)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    for name in arguments.models:
        model, clip = calibrated(name), torch.randn(1, 3, arguments.frames, 112, 112)
        programs = {way: edgecore.compile(model, (clip,), backends=backends) for way, backends in BACKENDS.items()}
        loaded = {way: edgecore.load(one.buffer, threads=arguments.threads) for way, one in programs.items()}
        calls = {"eager": model, **{way: one.forward for way, one in loaded.items()}}
        times: dict[str, list[float]] = {way: [] for way in calls}
        with torch.no_grad():
            results = {way: call(clip) for way, call in calls.items()}
            for _ in range(arguments.rounds):
                for way, call in calls.items():
                    start = clock()
                    call(clip)
                    times[way].append(clock() - start)
        want, eager = results["eager"], min(times["eager"])
        print(f"{name}: eager {eager * 1e3:.0f} ms")
        for way, program in programs.items():
            error = float((results[way] - want).abs().max() / want.abs().max())
            delegates = len(program.pte.program.execution_plan[0].delegates)
            outside = len(program.report().left_outside)
            took = min(times[way])
            print(
                f"  {way}: {took * 1e3:.0f} ms, ratio {took / eager:.2f}, error {error:.1e}, {delegates} delegates, "
                f"{outside} operators outside",
                flush=True,
            )


if __name__ == "__main__":
    main()
