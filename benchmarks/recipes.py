"""Compile the networks of tests/zoo.py with every recipe of a backend, and compare all outputs with quantized eager PyTorch.

    python benchmarks/recipes.py xnnpack > recipes.md

Prints one row for each network and recipe: the SQNR of the recipe against float eager PyTorch; the error of the runtime
against quantized eager PyTorch, relative to the largest magnitude of the output; and this error divided by the bound of
`program.compare`. Exit status 1 if an error exceeds its bound.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

import edgecore
from edgecore.pipeline.compare import OutputRow
from edgecore.pipeline.preprocess import compiler_of
from edgecore.plugin import registry

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import zoo


def compared(name: str, backend: str, recipe: str, calibrates: bool) -> OutputRow:
    """Compare a network on two sets of inputs. Return the row of its first output."""
    model, inputs = zoo.make(name)
    calls = [inputs, zoo.other_inputs(inputs)]
    calibration = calls if calibrates else None
    program = edgecore.compile(model, inputs, backends=[backend], quantize=recipe, calibration=calibration)
    return program.compare(model, calls).rows[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend")
    parser.add_argument("--networks", nargs="*", default=list(zoo.ALL))
    parser.add_argument("--recipes", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    recipes = compiler_of(registry.find_by_name(arguments.backend)).recipes()
    print("| network | recipe | output | SQNR against float eager | own error | part of the bound |")
    print("|---|---|---|---|---|---|")
    exceeded = 0
    for network in arguments.networks:
        for recipe in arguments.recipes or recipes:
            row = compared(network, arguments.backend, recipe, recipes[recipe].calibrates)
            exceeded += row.exceeded
            print(
                f"| {network} | {recipe} | {list(row.shape)} | {row.eager.sqnr:.1f} dB | {row.own.relative:.1e} "
                f"| {row.own.largest / row.bound:.2f}{' EXCEEDED' if row.exceeded else ''} |",
                flush=True,
            )
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
