"""Compile MobileNetV2 for two SoCs, with an empty cache and from the cache, and run it on the emulator.

python plugins/edgecore-qnn/benchmarks/mobilenet.py [fp16] [int8] [int16x8]
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import edgecore
from edgecore.plugin import CompileSpec, PreprocessResult
from edgecore_qnn.compiler import QnnCompiler
from edgecore_qnn.lowering import preprocess
from edgecore_qnn.options import QnnOptions

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
from zoo import make

REPEATS = 5


def partition_of(recipe: str) -> tuple[Any, Any, Any]:
    """Compile MobileNetV2; return the partition that its delegate has, the program and the inputs."""
    model, inputs = make("mobilenet_v2")
    partitions = []
    original = QnnCompiler.preprocess

    def recorded(self: QnnCompiler, partition: Any, specs: Sequence[CompileSpec]) -> PreprocessResult:
        partitions.append(partition)
        return original(self, partition, specs)

    QnnCompiler.preprocess = recorded  # type: ignore[method-assign]
    backend = edgecore.Backend("qnn", required=True)
    samples = None if recipe == "fp16" else [inputs]
    try:
        program = edgecore.compile(model, inputs, backends=[backend], quantize=recipe, calibration=samples)
    finally:
        QnnCompiler.preprocess = original  # type: ignore[method-assign]
    (partition,) = partitions
    return partition, program, inputs


def timed(partition: Any, soc: str, cache: str) -> tuple[bytes, float, float]:
    """Preprocess a partition; return the blob, the seconds and the processor's seconds of this process and its child."""
    os.environ["EDGECORE_QNN_CACHE"] = cache
    wall, before = time.perf_counter(), os.times()
    blob = preprocess(partition, QnnOptions(soc_model=soc).to_specs()).blob
    return blob, time.perf_counter() - wall, sum(os.times()[:4]) - sum(before[:4])


def measure(recipe: str) -> str:
    """Return a row of the table in README.md."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        os.environ["EDGECORE_QNN_CACHE"] = first
        partition, program, inputs = partition_of(recipe)
        blob, empty, empty_cpu = timed(partition, "SM8650", second)
        again = [timed(partition, "SM8650", second) for _ in range(REPEATS)]
        other, _, _ = timed(partition, "SM8750", second)
        original = timed(partition, "SM8650", first)[0]
    assert original == blob == again[0][0], "compiling again gives other bytes"
    assert other != blob, "two SoCs give equal bytes"
    cached, cached_cpu = (statistics.median(times) for times in list(zip(*again, strict=True))[1:])
    loaded = edgecore.load(program.buffer)
    loaded.forward(*inputs)
    runs = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        torch.as_tensor(loaded.forward(*inputs))
        runs.append(time.perf_counter() - start)
    return (
        f"| {recipe} | {len(blob):,} | {empty:.2f} s, {empty_cpu:.2f} s | {cached:.3f} s, {cached_cpu:.3f} s "
        f"| {statistics.median(runs):.2f} s |"
    )


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ["fp16", "int8"]:
        print(measure(chosen), flush=True)
