"""`--device` of commands: run a file on another device, with the inputs that the command would have here."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgecore.cli.common import complain, progress, read_file

if TYPE_CHECKING:
    from edgecore.devtools.profiling import Profile


def profile_there(
    device: str, file: Path, method: str, inputs: Sequence[Path], runs: int, warmup: int, threads: int | None,
    data: Sequence[Path], build: Path | None,
) -> Profile:  # fmt: skip
    """Profile a file on a device, and show what is pushed."""
    from edgecore.devtools.remote import connect, profile_on

    with tempfile.TemporaryDirectory() as folder, progress(f"connecting to {device}") as status:
        there = connect(device, status.update)
        files = list(inputs) or random_inputs(file, method, Path(folder))
        status.update(f"running {method} {warmup + runs} times on {device}")
        return profile_on(
            there, file, method=method, inputs=files, runs=runs, warmup=warmup, threads=threads, data=data, build=build
        )


def random_inputs(file: Path, method: str, folder: Path) -> list[Path]:
    """Write random tensors for the inputs of a method, and return their paths; say so.

    edgecore-run takes files for tensors only, in the order of the inputs; after the first other input all are zeros.
    """
    from edgecore.devtools.describe import describe
    from edgecore.devtools.random_inputs import random_tensor

    facts = next(one for one in describe(read_file(file))["methods"] if one["name"] == method)["inputs"]
    paths: list[Path] = []
    for index, value in enumerate(facts):
        if value["type"] != "tensor":
            break
        path = folder / f"input_{index}.bin"
        path.write_bytes(random_tensor(tuple(value["shape"]), value["dtype"], index))
        paths.append(path)
    if facts:
        zeros = f", from input {len(paths)} on zeros" if len(paths) < len(facts) else ""
        complain(f"no --input: the inputs are random (seed 0){zeros}")
    return paths
