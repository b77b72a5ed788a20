"""Files without any backend: the latency of our kernels, as a ratio to eager PyTorch on as many threads.

    python benchmarks/portable.py [MODEL ...] [--threads 2] [--rounds 8]

Two processes, one a runtime, take turns of five runs each, as in `check.py`; the ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from check import latency, make

import edgecore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["mobilenet_v2", "vit_b_16"], help="names of tests/zoo.py")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8, help="turns of each runtime")
    arguments = parser.parse_args()
    for name in arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.pte"
            model, inputs = make(name)
            edgecore.compile(torch.export.export(model, inputs), backends=[]).save(path)
            median = latency({"edgecore": path, "eager": name}, arguments.threads, arguments.rounds)
        ours, eager = median["edgecore"], median["eager"]
        print(f"{name}: {ours * 1e3:.1f} ms, eager {eager * 1e3:.1f} ms, ratio {ours / eager:.2f}", flush=True)


if __name__ == "__main__":
    main()
