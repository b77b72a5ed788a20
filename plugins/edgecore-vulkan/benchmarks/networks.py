"""Measure networks and a matrix product on the first Vulkan device, next to eager PyTorch in float32.

    python plugins/edgecore-vulkan/benchmarks/networks.py [MODEL ...] [--rounds 20] [--threads 2] [--fp16] [--int8]

Both run in one process and alternate, run by run. Reports two ratios, of the fastest wall-clock times and of the
smallest CPU times; on a software device, other programs disturb CPU times less. First runs include the compilation of
shaders, unless the driver has cached these in an earlier process. `tests/zoo.py` lists the names of models.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import edgecore

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
from zoo import make

SIZE = 1024
"""Rows and columns of the matrices of the product."""


def processor_seconds() -> float:
    """Return the processor time of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Clock:
    """The least wall time and the least processor time of several runs."""

    def __init__(self) -> None:
        self.wall = self.processor = float("inf")

    def run(self, function: Callable[[], object]) -> object:
        processor, wall = processor_seconds(), time.perf_counter()
        result = function()
        self.wall = min(self.wall, time.perf_counter() - wall)
        self.processor = min(self.processor, processor_seconds() - processor)
        return result


def measure(
    name: str, model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], arguments: argparse.Namespace
) -> float:
    """Print a line for a model, and return the seconds of the fastest run on the device."""
    backend = edgecore.Backend("vulkan", force_fp16=arguments.fp16)
    options = {"quantize": "int8", "calibration": [inputs]} if arguments.int8 else {}
    compiled = edgecore.compile(model, inputs, backends=[backend], runtime=arguments.runtime, **options)
    program = edgecore.load(compiled.buffer)
    first, device, eager = Clock(), Clock(), Clock()
    with torch.no_grad():
        expected = model(*inputs)
        result = torch.as_tensor(first.run(lambda: program.forward(*inputs)))
        for _ in range(arguments.rounds):
            device.run(lambda: program.forward(*inputs))
            eager.run(lambda: model(*inputs))
    error = (result - expected).abs().max() / expected.abs().max()
    print(
        f"{name}: first run {first.wall * 1e3:.0f} ms; fastest run {device.wall * 1e3:.1f} ms, "
        f"eager {eager.wall * 1e3:.1f} ms, ratio {device.wall / eager.wall:.2f}; processor time "
        f"{device.processor * 1e3:.1f} ms, eager {eager.processor * 1e3:.1f} ms, "
        f"ratio {device.processor / eager.processor:.2f}; error {error:.1e}"
    )
    return device.wall


def main() -> None:
    """Measure the networks and the product."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["mobilenet_v2"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2, help="threads of PyTorch")
    parser.add_argument("--fp16", action="store_true", help="compile with force_fp16")
    parser.add_argument("--int8", action="store_true", help="quantize activations and weights")
    parser.add_argument("--runtime", default="executorch-1.5", help="the target runtime of the compilation")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in arguments.models:
        measure(name, *make(name), arguments)
    layer = torch.nn.Linear(SIZE, SIZE).eval()
    seconds = measure(f"product of {SIZE} x {SIZE} matrices", layer, (torch.randn(SIZE, SIZE),), arguments)
    print(f"product: {2 * SIZE**3 / seconds / 1e9:.1f} GFLOP/s")


if __name__ == "__main__":
    main()
