"""Compare quantized networks with executorch's, and with fp32 files of edgecore: time and SQNR.

    python benchmarks/quantized.py [NAME ...] [--recipe int8] [--threads 2] [--rounds 25]

Each network is quantized by the recipe of edgecore and, for executorch, by its quantizer (int8 and int8-dynamic: a
scale for each output channel, the same calibration) or by torchao's `quantize_` (int4-weights: 8-bit inputs, 4-bit
weights in groups of 32). Both compilers lower to XNNPACK. The programs run alternately in one process; times are
medians. SQNR is the power of eager PyTorch's fp32 result divided by the power of the difference, in dB. executorch uses
as many threads as the process may use cores: for one thread, run this program under `taskset -c 0`.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, PerGroup, quantize_
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import edgecore

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from zoo import make

NETWORKS = ("mobilenet_v2", "mobilenet_v3_large", "resnet50")


def peer_file(recipe: str, model: Any, exported: Any, inputs: tuple[Any, ...]) -> tuple[bytes, float]:
    """Compile with executorch. Return its file, and the seconds of lowering without quantization and export."""
    if recipe.startswith("int8"):
        config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=recipe == "int8-dynamic")
        quantizer = XNNPACKQuantizer().set_global(config)
        observed = prepare_pt2e(exported.module(), quantizer)
        observed(*inputs)
        quantized = torch.export.export(convert_pt2e(observed), inputs)
    else:
        model = copy.deepcopy(model)
        quantize_(model, Int8DynamicActivationIntxWeightConfig(torch.int4, PerGroup(32)))
        quantized = torch.export.export(model, inputs)
    start = time.perf_counter()
    program = to_edge_transform_and_lower(quantized, partitioner=[XnnpackPartitioner()]).to_executorch()
    return program.buffer, time.perf_counter() - start


def medians(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Run the calls alternately. Return the median milliseconds of each; the first two rounds do not count."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for index in range(rounds + 2):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if index >= 2:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) * 1e3 for name, seconds in times.items()}


def sqnr(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return the signal to quantization noise ratio in dB."""
    return float(10 * torch.log10(want.square().mean() / (got - want).square().mean()))


def compare(name: str, recipe: str, folder: Path, threads: int, rounds: int) -> None:
    """Measure one network, and print a line."""
    model, inputs = make(name)
    exported = torch.export.export(model, inputs)
    calibration = [inputs] if recipe == "int8" else None
    program = edgecore.compile(exported, backends=["xnnpack"], quantize=recipe, calibration=calibration)
    path = folder / "peer.pte"
    theirs, peer_seconds = peer_file(recipe, model, exported, inputs)
    path.write_bytes(theirs)
    loaded = Runtime.get().load_program(str(path))
    peer = loaded.load_method("forward")
    ours = edgecore.load(program.buffer, threads=threads).forward
    floats = edgecore.load(edgecore.compile(exported, backends=["xnnpack"]).buffer, threads=threads).forward
    with torch.no_grad():
        want = model(*inputs)
    milliseconds = medians(
        {"ours": lambda: ours(*inputs), "peer": lambda: peer.execute(list(inputs)), "fp32": lambda: floats(*inputs)},
        rounds,
    )
    print(
        f"{name:20} {threads} threads  {recipe} {milliseconds['ours']:.2f} ms  "
        f"executorch {milliseconds['peer']:.2f} ms  ratio {milliseconds['ours'] / milliseconds['peer']:.2f}  "
        f"fp32 {milliseconds['fp32']:.2f} ms  "
        f"SQNR {sqnr(ours(*inputs), want):.1f} dB, "
        f"executorch {sqnr(peer.execute(list(inputs))[0], want):.1f} dB  lowering {program.seconds:.1f} s, executorch "
        f"{peer_seconds:.1f} s",
        flush=True,
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--recipe", choices=("int8", "int8-dynamic", "int4-weights"), default="int8")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.networks:
            compare(name, options.recipe, Path(folder), options.threads, options.rounds)


if __name__ == "__main__":
    main()
