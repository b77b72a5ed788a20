"""Compare the planned memory of the zoo's networks with executorch's, and with the lower bound.

    python benchmarks/memory.py [MODEL ...] [--backend xnnpack] [--exported FOLDER] [--peer FOLDER]

Inputs and outputs are in the arena, which is the default of executorch. The lower bound is the maximum over all steps
of the bytes that are live in a step. --exported is a folder with NAME.pt2 files of torch.export; --peer is a folder
with executorch's NAME.portable.pte or NAME.xnnpack.pte. Without these folders the files are made, which takes minutes.
The exit status is 1 if a plan is larger than executorch's, or if fewer than 3 of 4 plans are within 5 % of the lower
bound.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch.export import ExportedProgram

import edgecore
from edgecore import format as fmt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from zoo import ALL, make


def exported(name: str, folder: Path | None) -> ExportedProgram:
    """Load the exported network from the folder, or export it."""
    if folder:
        return torch.export.load(folder / f"{name}.pt2")
    model, inputs = make(name)
    return torch.export.export(model, inputs)


def peer_file(program: ExportedProgram, name: str, backend: str | None, folder: Path | None) -> bytes:
    """Read executorch's file of the network from the folder, or compile it."""
    if folder:
        return (folder / f"{name}.{backend or 'portable'}.pte").read_bytes()
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    partitioner = [XnnpackPartitioner()] if backend else []
    return to_edge_transform_and_lower(program, partitioner=partitioner).to_executorch().buffer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(ALL), help="names of tests/zoo.py")
    parser.add_argument("--backend", choices=["xnnpack"])
    parser.add_argument("--exported", type=Path)
    parser.add_argument("--peer", type=Path)
    arguments = parser.parse_args()
    print("| model | edgecore | lower bound | over it | executorch 1.5.1 | ratio |\n|---|---|---|---|---|---|")
    above, near = [], 0
    for name in arguments.models:
        program = exported(name, arguments.exported)
        peer = fmt.read_pte(peer_file(program, name, arguments.backend, arguments.peer))
        theirs = sum(peer.program.execution_plan[0].non_const_buffer_sizes)
        compiled = edgecore.compile(program, backends=[arguments.backend] if arguments.backend else [], memory="static")
        ours = sum(compiled.pte.program.execution_plan[0].non_const_buffer_sizes)
        bound = sum(arena.bound for arena in compiled.report().memory)
        near += ours <= 1.05 * bound
        above += [name] * (ours > theirs)
        print(
            f"| {name} | {ours:,} | {bound:,} | {ours / bound - 1:.1%} | {theirs:,} | {ours / theirs:.2f} |", flush=True
        )
    print(f"\nwithin 5 % of the lower bound: {near} of {len(arguments.models)}; above executorch: {above or 'none'}")
    if above or 4 * near < 3 * len(arguments.models):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
