"""Measure the overhead of edgecore-openvino against OpenVINO's own Python runtime, in float32 with static shapes.

    python benchmarks/openvino_backend.py [MODEL ...] [--threads 2] [--pairs 100] [--pt2 FILE]

One process calls both runtimes in pairs; each runtime is first in every other pair. Both have the same number of threads
and copy no inputs. OpenVINO's model comes from its own frontend for `torch.export`, edgecore's from the operator table of
the backend. Printed: median times, ratio of the medians, median of the ratios of the pairs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import openvino
import torch

import edgecore

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from worker import openvino_request  # beside this file
from zoo import make


def compare(name: str, exported: torch.export.ExportedProgram, threads: int, pairs: int) -> str:
    """Measure one model. Return a row of the table."""
    inputs = exported.example_inputs[0]
    program = edgecore.compile(exported, backends=[edgecore.Backend("openvino", required=True)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.pte")
        program.save(path)
        method = edgecore.load(path, threads=threads)["forward"]
    # Without `input=` OpenVINO's frontend makes all shapes dynamic, which makes OpenVINO slower.
    model = openvino.convert_model(exported, input=[list(tensor.shape) for tensor in inputs])
    request = openvino_request(model, threads)
    for index, tensor in enumerate(inputs):
        request.set_input_tensor(index, openvino.Tensor(tensor.numpy(), shared_memory=True))

    runs = [lambda: method(*inputs), request.infer]
    times: list[list[float]] = [[], []]
    for pair in range(pairs + 5):
        for index in (0, 1) if pair % 2 else (1, 0):
            start = time.perf_counter()
            runs[index]()
            times[index].append(time.perf_counter() - start)
    edge, peer = (values[5:] for values in times)
    median = [statistics.median(values) * 1e3 for values in (edge, peer)]
    paired = statistics.median(a / b for a, b in zip(edge, peer, strict=True))
    return f"| {name} | {median[0]:.2f} ms | {median[1]:.2f} ms | {median[0] / median[1]:.3f} | {paired:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="names of tests/zoo.py; by default mobilenet_v2")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--pt2", type=Path, help="a file of torch.export.save instead of a model's name")
    arguments = parser.parse_args()
    if arguments.pt2:
        programs = {arguments.pt2.stem: torch.export.load(arguments.pt2)}
    else:
        programs = {name: torch.export.export(*make(name)) for name in arguments.models or ["mobilenet_v2"]}
    for name, exported in programs.items():
        print(compare(name, exported, arguments.threads, arguments.pairs), flush=True)


if __name__ == "__main__":
    main()
