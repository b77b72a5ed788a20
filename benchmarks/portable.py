"""Compare the latency of edgecore's kernels (files without a backend) with eager PyTorch on the same number of threads.

    python benchmarks/portable.py [MODEL ...] [--threads 2] [--rounds 8] [--int8]

Each runtime has one process, and the processes alternate in blocks of five runs, as in `check.py`. The ratio is the
ratio of the medians. With --int8, edgecore's int8 file is compared with its fp32 file instead.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from check import Worker, alternate, latency, make

import edgecore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["mobilenet_v2", "vit_b_16"], help="names of tests/zoo.py")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8, help="blocks of five runs for each runtime")
    parser.add_argument("--int8", action="store_true", help="compare int8 with fp32, both of edgecore")
    arguments = parser.parse_args()
    for name in arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.pte"
            model, inputs = make(name)
            edgecore.compile(torch.export.export(model, inputs), backends=[]).save(path)
            if arguments.int8:
                int8 = path.with_suffix(".int8.pte")
                options = {"runtime": "edgecore", "quantize": "int8", "calibration": [inputs]}
                edgecore.compile(model, inputs, **options).save(int8)
                workers = {file: Worker("edgecore", file, arguments.threads) for file in (int8, path)}
                ours, fp32 = alternate(workers, arguments.rounds).values()
                print(
                    f"{name}: int8 {ours * 1e3:.1f} ms, fp32 {fp32 * 1e3:.1f} ms, ratio {ours / fp32:.2f}", flush=True
                )
                continue
            median = latency({"edgecore": path, "eager": name}, arguments.threads, arguments.rounds)
        ours, eager = median["edgecore"], median["eager"]
        print(f"{name}: {ours * 1e3:.1f} ms, eager {eager * 1e3:.1f} ms, ratio {ours / eager:.2f}", flush=True)


if __name__ == "__main__":
    main()
