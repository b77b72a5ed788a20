"""Compare torchvision's video networks with eager PyTorch: time, error, and delegated operators.

    python benchmarks/volumes.py [r3d_18 ...] [--threads 2] [--rounds 7] [--frames 8]

The weights are random, and the batch norms have statistics of noise. Eager PyTorch, a file for XNNPACK and a file without a
backend run alternately in one process. Printed are the minimum times and their ratios to eager PyTorch. With one thread they
are processor time, on which other processes have little effect; with several threads wall-clock time.
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
    """Make a network with random weights in eval mode. Its batch norms have the statistics of noise."""
    torch.manual_seed(0)
    model = getattr(torchvision_models().video, name)(weights=None).train()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm3d):
            module.momentum = None  # average over all batches
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
        programs = {kind: edgecore.compile(model, (clip,), backends=backends) for kind, backends in BACKENDS.items()}
        loaded = {kind: edgecore.load(program.buffer, threads=arguments.threads) for kind, program in programs.items()}
        calls = {"eager": model, **{kind: program.forward for kind, program in loaded.items()}}
        times: dict[str, list[float]] = {kind: [] for kind in calls}
        with torch.no_grad():
            results = {kind: call(clip) for kind, call in calls.items()}
            for _ in range(arguments.rounds):
                for kind, call in calls.items():
                    start = clock()
                    call(clip)
                    times[kind].append(clock() - start)
        want, eager = results["eager"], min(times["eager"])
        print(f"{name}: eager {eager * 1e3:.0f} ms")
        for kind, program in programs.items():
            error = float((results[kind] - want).abs().max() / want.abs().max())
            delegates = len(program.pte.program.execution_plan[0].delegates)
            undelegated = len(program.report().left_outside)
            seconds = min(times[kind])
            print(
                f"  {kind}: {seconds * 1e3:.0f} ms, ratio {seconds / eager:.2f}, error {error:.1e}, {delegates} delegates, "
                f"{undelegated} operators not delegated",
                flush=True,
            )


if __name__ == "__main__":
    main()
