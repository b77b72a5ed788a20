"""Compare edgecore with XNNPACK, ONNX Runtime and OpenVINO in float32, on files made from the same `torch.export` result.

    pip install onnxruntime onnx onnxscript openvino
    python benchmarks/runtimes.py [MODEL ...] [--threads 2] [--rounds 6] [--folder FOLDER]

One process for each runtime; they alternate in blocks of five runs. The last column is edgecore's time divided by that of
the faster of the other two. If FOLDER contains files of an earlier run, they are used again.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

import torch
from check import latency
from zoo import ZOO, make

import edgecore

SUFFIX = {"edgecore": "pte", "onnxruntime": "onnx", "openvino": "xml"}


def files(name: str, folder: Path) -> dict[str, Path | str]:
    """Make the file of a model for each runtime, unless they all exist."""
    paths: dict[str, Path | str] = {runtime: folder / f"{name}.{suffix}" for runtime, suffix in SUFFIX.items()}
    if all(Path(path).exists() for path in paths.values()):
        return paths
    import openvino

    model, inputs = make(name)
    exported = torch.export.export(model, inputs)
    edgecore.compile(exported, backends=["xnnpack"]).save(paths["edgecore"])
    torch.onnx.export(exported, f=str(paths["onnxruntime"]), dynamo=True, external_data=False, verbose=False)
    converted = openvino.convert_model(exported, input=[list(tensor.shape) for tensor in inputs])
    openvino.save_model(converted, paths["openvino"], compress_to_fp16=False)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=sorted(ZOO))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=6, help="blocks of five runs for each runtime")
    parser.add_argument("--folder", type=Path, help="folder in which the files are kept")
    arguments = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or Path(name)
        for model in arguments.models:
            median = latency(files(model, folder), arguments.threads, arguments.rounds)
            ratios.append(median["edgecore"] / min(median["onnxruntime"], median["openvino"]))
            times = " | ".join(f"{median[runtime] * 1e3:.2f} ms" for runtime in SUFFIX)
            print(f"| {model} | {times} | {ratios[-1]:.2f} |", flush=True)
    print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
