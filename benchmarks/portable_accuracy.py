"""All 16 networks of the test zoo without a backend: difference from eager, and seconds of CPU that lowering takes.

python benchmarks/portable_accuracy.py [NAME ...]; exits with 1 if a difference exceeds 1e-4 of the largest output.
"""

import sys
import time
from pathlib import Path

import torch

import edgecore

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from zoo import ALL, make, other_inputs

TOLERANCE = 1e-4


def measure(name: str) -> tuple[float, float]:
    """(greatest difference relative to the largest output on two inputs, CPU seconds of lowering after export)."""
    model, inputs = make(name)
    exported = torch.export.export(model, inputs)
    start = time.process_time()
    program = edgecore.compile(exported, backends=[])
    seconds = time.process_time() - start
    loaded = edgecore.load(program.buffer)
    worst = 0.0
    for given in (inputs, other_inputs(inputs)):
        with torch.no_grad():
            expected = model(*given)
        worst = max(worst, float((loaded.forward(*given) - expected).abs().max() / expected.abs().max()))
    return worst, seconds


def main() -> int:
    """Print one line a network."""
    failed = False
    for name in sys.argv[1:] or ALL:
        difference, seconds = measure(name)
        failed |= difference > TOLERANCE
        print(f"{name:30} difference {difference:.1e}  lowering {seconds:.2f} s", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
