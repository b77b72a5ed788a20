"""Compare edgecore with XNNPACK, executorch, ONNX Runtime and OpenVINO on the same `torch.export` result.

    pip install executorch==1.5.1 onnxruntime onnx onnxscript openvino nncf
    python benchmarks/runtimes.py [MODEL ...] [--int8] [--threads 2] [--rounds 12] [--folder FOLDER] [--avx2]

Each runtime has one process, and the processes alternate in blocks of five runs, with a pause before each block. The
last column is edgecore's time divided by the time of the fastest other runtime. OpenVINO computes in float32, although
it would choose bfloat16 on some processors. With `--int8`, each runtime's own quantizer gets the same eight calibration
samples, and weights have a scale for each channel. `--avx2` shows a processor without AVX512: edgecore and OpenVINO
ignore AVX512 and VNNI, and the other two, which cannot, are left out. Files of an earlier run in FOLDER are used again.
MODEL is a name of tests/zoo.py, or a name with a slash of models/untuned_models.py.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from check import HERE, latency
from zoo import ZOO, make, other_inputs

import edgecore

sys.path.append(str(HERE / "models"))
from untuned_models import make as make_untuned

INT8 = ("mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "resnet18", "resnet50")
"""Networks that are measured in int8 by default."""

Samples = list[tuple[torch.Tensor, ...]]


def edgecore_file(exported: Any, samples: Samples | None, path: Path) -> None:
    options = {"quantize": "int8", "calibration": samples} if samples else {}
    edgecore.compile(exported, backends=["xnnpack"], **options).save(path)


def executorch_file(exported: Any, samples: Samples | None, path: Path) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    if samples:
        config = get_symmetric_quantization_config(is_per_channel=True)
        observed = prepare_pt2e(exported.module(), XNNPACKQuantizer().set_global(config))
        for sample in samples:
            observed(*sample)
        exported = torch.export.export(convert_pt2e(observed), samples[0])
    path.write_bytes(to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch().buffer)


def onnxruntime_file(exported: Any, samples: Samples | None, path: Path) -> None:
    torch.onnx.export(exported, f=str(path), dynamo=True, external_data=False, verbose=False)
    if not samples:
        return
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    names = [value.name for value in onnx.load(str(path)).graph.input]

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.feeds = iter([{name: t.numpy() for name, t in zip(names, sample)} for sample in samples])

        def get_next(self) -> dict[str, Any] | None:
            return next(self.feeds, None)

    quant_pre_process(str(path), str(path))
    # On x86, ONNX Runtime has its fastest kernels for uint8 activations and int8 weights.
    types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    quantize_static(str(path), str(path), Reader(), per_channel=True, **types)


def openvino_file(exported: Any, samples: Samples | None, path: Path) -> None:
    import openvino

    inputs = exported.example_inputs[0]
    converted = openvino.convert_model(exported, input=[list(tensor.shape) for tensor in inputs])
    if samples:
        import nncf

        data = nncf.Dataset(samples, lambda sample: [tensor.numpy() for tensor in sample])
        converted = nncf.quantize(converted, data, subset_size=len(samples))
    openvino.save_model(converted, path, compress_to_fp16=False)


RUNTIMES: dict[str, tuple[str, Callable[[Any, Samples | None, Path], None]]] = {
    "edgecore": ("pte", edgecore_file),
    "executorch": ("executorch.pte", executorch_file),
    "onnxruntime": ("onnx", onnxruntime_file),
    "openvino": ("xml", openvino_file),
}

AVX2 = {
    "edgecore": {"EDGECORE_XNNPACK_HARDWARE": "avx2,uarch=other"},
    "openvino": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
}
"""Runtimes that can be restricted to kernels for AVX2 -> environment variables that restrict them."""


def files(name: str, folder: Path, int8: bool, runtimes: Iterable[str] = tuple(RUNTIMES)) -> dict[str, Path | str]:
    """Make those files of a model that do not exist yet, one for each of `runtimes`."""
    stem = name.replace("/", "_") + ".int8" * int8
    warnings.filterwarnings("ignore")
    paths: dict[str, Path | str] = {runtime: folder / f"{stem}.{RUNTIMES[runtime][0]}" for runtime in runtimes}
    missing = [runtime for runtime, path in paths.items() if not Path(path).exists()]
    if missing:
        model, inputs = make_untuned(name) if "/" in name else make(name)
        torch.manual_seed(0)
        samples = [inputs, *(other_inputs(inputs) for _ in range(7))] if int8 else None
        exported = torch.export.export(model, inputs)
        for runtime in missing:
            RUNTIMES[runtime][1](exported, samples, Path(paths[runtime]))
    return paths


def table(
    models: list[str], int8: bool, threads: int, rounds: int, folder: Path, runtimes: Iterable[str] = tuple(RUNTIMES)
) -> None:
    """Measure the models, or the default ones if the list is empty, and print a table."""
    ratios = []
    runtimes = tuple(runtimes)
    print(f"| {threads} threads | " + " | ".join(runtimes) + " | ratio |")
    print("|---" * (len(runtimes) + 2) + "|")
    for model in models or (INT8 if int8 else sorted(ZOO)):
        median = latency(files(model, folder, int8, runtimes), threads, rounds)
        ratios.append(median["edgecore"] / min(median[runtime] for runtime in runtimes if runtime != "edgecore"))
        times = " | ".join(f"{median[runtime] * 1e3:.2f} ms" for runtime in runtimes)
        print(f"| {model} | {times} | {ratios[-1]:.2f} |", flush=True)
    print(f"| geometric mean |{' |' * len(runtimes)} {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="default: all, or with --int8 " + ", ".join(INT8))
    parser.add_argument("--int8", action="store_true", help="quantize activations and weights")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12, help="blocks of five runs for each runtime")
    parser.add_argument("--folder", type=Path, help="folder in which the files are kept")
    parser.add_argument("--avx2", action="store_true", help="kernels for AVX2 alone: " + ", ".join(AVX2))
    arguments = parser.parse_args()
    if arguments.avx2:
        os.environ.update(variable for variables in AVX2.values() for variable in variables.items())
    runtimes = tuple(AVX2) if arguments.avx2 else tuple(RUNTIMES)
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or Path(name)
        table(arguments.models, arguments.int8, arguments.threads, arguments.rounds, folder, runtimes)


if __name__ == "__main__":
    main()
