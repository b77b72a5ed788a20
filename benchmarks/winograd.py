"""Time networks with each value of edgecore-xnnpack's load option `winograd`.

    python benchmarks/winograd.py [MODEL ...] [--threads 1] [--rounds 25]      MODEL: a name of tests/zoo.py

The three loads run in turns in one process. The times are the smallest ones of CPU time, of all threads together.
"""

import argparse
import sys
import time
from pathlib import Path

import torch

import edgecore

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from zoo import make

VALUES = ("off", "accurate", "on")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["resnet18", "resnet50", "unet"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    args = parser.parse_args()
    for name in args.models:
        model, inputs = make(name)
        file = bytes(edgecore.compile(model, inputs, backends=["xnnpack"]).buffer)
        loads = [
            edgecore.load(file, threads=args.threads, options={"xnnpack": {"winograd": value}})["forward"]
            for value in VALUES
        ]
        best = [float("inf")] * len(loads)
        with torch.no_grad():
            for _ in range(args.rounds):
                for i, method in enumerate(loads):
                    for _ in range(3):
                        begin = time.process_time()
                        method(*inputs)
                        best[i] = min(best[i], time.process_time() - begin)
        times = "  ".join(f"{value} {seconds * 1e3:.2f} ms" for value, seconds in zip(VALUES, best))
        print(f"{name}, {args.threads} threads: {times}")


if __name__ == "__main__":
    main()
