"""Compile MobileNetV2 for VGF, run it in the emulation layer, and compare it with Arm's reference model.

python plugins/edgecore-vgf/benchmarks/mobilenet.py [real] [int8] [int16x8]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import edgecore
from edgecore_tosa.simulator import Simulator

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
from zoo import make


def measure(recipe: str) -> str:
    """Return a row of the table in README.md."""
    model, inputs = make("mobilenet_v2")
    quantize = None if recipe == "real" else recipe
    with tempfile.TemporaryDirectory() as folder:
        backend = edgecore.Backend("vgf", required=True, dump_intermediate_artifacts_to=folder)
        start = time.perf_counter()
        samples = [inputs] if quantize else None
        program = edgecore.compile(model, inputs, backends=[backend], quantize=quantize, calibration=samples)
        compiled = time.perf_counter() - start
        ((graph,), (vgf,)) = (list(Path(folder).glob(f"*/graph.{kind}")) for kind in ("tosa", "vgf"))
        assert "not delegated" not in str(program.report())
        (expected,) = Simulator(graph.read_bytes()).run(inputs[0].numpy())
        size = vgf.stat().st_size
    start = time.perf_counter()
    loaded = edgecore.load(program.buffer)
    results = [torch.as_tensor(loaded.forward(*inputs)).numpy()]
    first = time.perf_counter() - start
    start = time.perf_counter()
    results.append(torch.as_tensor(loaded.forward(*inputs)).numpy())
    again = time.perf_counter() - start
    different = max(float(np.abs(result - expected).max()) for result in results) / float(np.abs(expected).max())
    with torch.no_grad():
        error = float(np.abs(expected - model(*inputs).numpy()).max()) / float(np.abs(expected).max())
    times = " | ".join(f"{seconds:.1f} s" for seconds in (compiled, first, again))
    return f"| {recipe} | 1 | {size:,} | {times} | {different:.2g} | {error:.2g} |"


if __name__ == "__main__":
    print("| recipe | delegates | bytes of VGF | compile | load and first run | run | emulation | eager |")
    for name in sys.argv[1:] or ["real", "int8", "int16x8"]:
        print(measure(name), flush=True)
