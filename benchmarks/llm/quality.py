"""Perplexity of exported files in different bits, on a small model that is trained here (fixed seed).

    python benchmarks/llm/quality.py [--width 256 --layers 4 --steps 120]

The model reads characters. It is trained on help texts of Python and measured on the text after them, as in
plugins/edgecore-llm/tests/test_quality.py, which sets limits for the perplexity.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "plugins" / "edgecore-llm" / "tests"), str(ROOT / "tests")]

from llm_characters import CONTEXT, TRAINING, CharacterCheckpoint, text_tokens

from edgecore_llm.cli.evaluate import perplexity
from edgecore_llm.export import ExportOptions, export
from edgecore_llm.model.layers import Precision
from edgecore_llm.runner.session import Model

ROWS: tuple[tuple[str, Precision, bool], ...] = (
    ("float32", Precision(), False),
    ("8da4w, groups of 32 (embeddings and output 8 bits)", Precision(4, 8, 8), False),
    ("8da4w, groups of 32, calibrated (GPTQ)", Precision(4, 8, 8), True),
    ("8da4w, groups of 256", Precision(4, 8, 8, group=256), False),
    ("8da8w", Precision(8, 8, 8), False),
    ("float32, cache of float16", Precision(cache=16), False),
    ("float32, cache of int8", Precision(cache=8), False),
    ("8da4w, groups of 32, calibrated, cache of int8", Precision(4, 8, 8, cache=8), True),
)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("width", 256), ("layers", 4), ("steps", 120)):
        parser.add_argument(f"--{name}", type=int, default=value)
    sizes = parser.parse_args()
    torch.set_num_threads(1)
    checkpoint = CharacterCheckpoint(sizes.width, sizes.layers, sizes.steps)
    parameters = sum(parameter.numel() for parameter in checkpoint.model.parameters())
    tokens = text_tokens()
    test, samples = tokens[TRAINING : TRAINING + 4096].tolist(), tokens[:2048].tolist()
    print(f"{parameters / 1e6:.1f} million parameters\n")
    print("| weights and caches | perplexity | over float32 |\n|---|---|---|")
    best = 0.0
    for name, precision, is_calibrated in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.pte"
            options = ExportOptions(CONTEXT, 128, precision, samples if is_calibrated else ())
            export(checkpoint, file, options)
            found = perplexity(Model(file, threads=1).new_session(), test, CONTEXT)[0]
        best = best or found
        print(f"| {name} | {found:.4f} | {100 * (found / best - 1):+.3f} % |", flush=True)


if __name__ == "__main__":
    main()
