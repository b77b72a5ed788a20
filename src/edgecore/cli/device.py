"""`edgecore profile --device`: profile a file on another device, with the same inputs as on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from edgecore.cli.common import complain, read_file
from edgecore.progress import task

if TYPE_CHECKING:
    from edgecore.cli.commands.profile import ProfileArguments
    from edgecore.devtools.profiling import Profile


def profile_there(arguments: ProfileArguments, method: str) -> Profile:
    """Profile a method on the device of `--device`, and show which files are pushed."""
    from edgecore.devtools.remote import connect, profile_on

    file, device, runs, warmup = arguments.file, arguments.device or "", arguments.runs, arguments.warmup
    with tempfile.TemporaryDirectory() as folder, task(f"profiling on {device}") as work:
        connection = connect(device, work.describe)
        inputs = arguments.inputs or random_inputs(file, method, Path(folder))
        work.describe(f"running {method} {warmup + runs} times")
        return profile_on(
            connection,
            file,
            method=method,
            inputs=inputs,
            runs=runs,
            warmup=warmup,
            threads=arguments.threads,
            data=arguments.data or (),
            build=arguments.device_build,
        )


def random_inputs(file: Path, method: str, folder: Path) -> list[Path]:
    """Write random tensors for the inputs of a method, tell the user, and return the paths.

    edgecore-run reads files only for leading tensors. The first input that is not a tensor, and all inputs after it,
    are zeros.
    """
    from edgecore.devtools.describe import describe
    from edgecore.devtools.random_inputs import random_tensor

    facts = next(row for row in describe(read_file(file))["methods"] if row["name"] == method)["inputs"]
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
