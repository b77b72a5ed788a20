"""Compare packages with compressed weights: their size, and their results with the stand-in for Core ML.

python plugins/edgecore-coreml/benchmarks/weights.py [mobilenet_v2] [resnet18] [bert_mini]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

import edgecore
from edgecore.format import read_pte
from edgecore_coreml.package.files import unpack
from edgecore_coreml_standin.interpreter import StandIn

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
from zoo import make

NETWORKS = ("mobilenet_v2", "resnet18", "bert_mini")
FORMS: dict[str, tuple[Any, dict[str, str]]] = {
    "fp32": (None, {}),
    "fp16": (None, {"compute_precision": "FLOAT16"}),
    "int8-weights": ("int8-weights", {}),
    "int4-weights": ("int4-weights", {}),
    "palette4": ("palette4", {}),
    "palette4, group=16": (edgecore.Recipe("palette4", group=16), {}),
    "palette4, weight_bits=6": (edgecore.Recipe("palette4", weight_bits=6), {}),
    "palette4 and fp16": ("palette4", {"compute_precision": "FLOAT16"}),
}


def main(names: list[str]) -> None:
    """Print a row for each network and form: size of specification and weights, ratio to fp32, SQNR against eager."""
    print("| network | weights | bytes | ratio | SQNR in dB |\n|---|---|---|---|---|")
    for name in names or NETWORKS:
        model, inputs = make(name)
        with torch.no_grad():
            expected = model(*inputs)
        plain = 0
        for form, (recipe, options) in FORMS.items():
            backend = edgecore.Backend("coreml", required=True, lower_full_graph=True, **options)
            program = edgecore.compile(model, inputs, backends=[backend], quantize=recipe)
            (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
            package = unpack(bytes(blob), {})
            size = len(package.specification) + len(package.weights)
            plain = plain or size
            (result,) = StandIn(bytes(blob), {})(*inputs)
            sqnr = 20 * torch.log10(expected.norm() / (result - expected).norm())
            print(f"| {name} | {form} | {size:,} | {plain / size:.2f} | {float(sqnr):.1f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
