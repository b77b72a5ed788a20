"""edgecore-openvino beside OpenVINO's own Python runtime in float32, static shapes: what does our host cost?

    python benchmarks/openvino_backend.py [MODEL ...] [--threads 2] [--pairs 100] [--pt2 FILE]

One process takes turns, a call of ours and one of OpenVINO's, each first in every other pair; both have the same number of
threads and no copies. OpenVINO's model comes from its own frontend for `torch.export`, ours from our operator table. Printed:
median times, ratio of the medians, median of the ratios of the pairs.
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
    """One row of the table."""
    inputs = exported.example_inputs[0]
    program = edgecore.compile(exported, backends=[edgecore.Backend("openvino", required=True)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.pte")
        program.save(path)
        method = edgecore.load(path, threads=threads)["forward"]
    # Without `input=` the frontend makes static shapes dynamic, which costs OpenVINO a part of its speed.
    model = openvino.convert_model(exported, input=[list(one.shape) for one in inputs])
    request = openvino_request(model, threads)
    for index, one in enumerate(inputs):
        request.set_input_tensor(index, openvino.Tensor(one.numpy(), shared_memory=True))

    runs = [lambda: method(*inputs), request.infer]
    times: list[list[float]] = [[], []]
    for pair in range(pairs + 5):
        for index in (0, 1) if pair % 2 else (1, 0):
            start = time.perf_counter()
            runs[index]()
            times[index].append(time.perf_counter() - start)
    ours, own = (values[5:] for values in times)
    median = [statistics.median(values) * 1e3 for values in (ours, own)]
    paired = statistics.median(one / other for one, other in zip(ours, own, strict=True))
    return f"| {name} | {median[0]:.2f} ms | {median[1]:.2f} ms | {median[0] / median[1]:.3f} | {paired:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="mobilenet_v2 if there is neither a name nor a file")
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
