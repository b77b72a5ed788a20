"""Measure the networks of the test zoo without a backend: difference from eager PyTorch, and processor time of lowering.

    python benchmarks/portable_accuracy.py [NAME ...]

Exit status 1 if a difference is more than 1e-4 of the largest output.
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
    """Measure one network.

    Returns:
        The maximum difference for two inputs, relative to the largest output; processor seconds of lowering after export.
    """
    model, inputs = make(name)
    exported = torch.export.export(model, inputs)
    start = time.process_time()
    program = edgecore.compile(exported, backends=[])
    seconds = time.process_time() - start
    loaded = edgecore.load(program.buffer)
    worst = 0.0
    for arguments in (inputs, other_inputs(inputs)):
        with torch.no_grad():
            expected = model(*arguments)
        worst = max(worst, float((loaded.forward(*arguments) - expected).abs().max() / expected.abs().max()))
    return worst, seconds


def main() -> int:
    """Print one line for each network. Return the exit status."""
    failed = False
    for name in sys.argv[1:] or ALL:
        difference, seconds = measure(name)
        failed |= difference > TOLERANCE
        print(f"{name:30} difference {difference:.1e}  lowering {seconds:.2f} s", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
