"""edgecore-openvino beside OpenVINO's own Python runtime in float32, static shapes: what does our host cost?

    python benchmarks/openvino_backend.py [MODEL ...] [--threads 2] [--rounds 20]

Two processes take turns of five runs each, with the same number of threads. OpenVINO's model comes from its own frontend for
`torch.export`, ours from our operator table; the last column is the ratio of the medians.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from check import latency
from zoo import make

import edgecore


def files(name: str, folder: Path) -> dict[str, Path | str]:
    """The model as a file of each runtime."""
    import openvino

    model, inputs = make(name)
    exported = torch.export.export(model, inputs)
    paths: dict[str, Path | str] = {"edgecore": folder / f"{name}.pte", "openvino": folder / f"{name}.xml"}
    edgecore.compile(exported, backends=[edgecore.Backend("openvino", required=True)]).save(paths["edgecore"])
    # Without `input=` the frontend makes static shapes dynamic, which costs OpenVINO a part of its speed.
    converted = openvino.convert_model(exported, input=[list(one.shape) for one in inputs])
    openvino.save_model(converted, paths["openvino"], compress_to_fp16=False)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["mobilenet_v2"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20, help="turns of each runtime")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models:
            median = latency(files(model, Path(folder)), arguments.threads, arguments.rounds)
            ours, own = median["edgecore"], median["openvino"]
            print(f"| {model} | {ours * 1e3:.2f} ms | {own * 1e3:.2f} ms | {ours / own:.3f} |", flush=True)


if __name__ == "__main__":
    main()
