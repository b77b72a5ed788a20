"""`edgecore budget`: compare a file with limits. Exit status: 0 within the limits, 1 beyond a limit, 2 failure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgecore.cli.common import Data, Json, ProgramFile, complain, failing_with, print_json, read_file
from edgecore.errors import EdgecoreError
from edgecore.files import write_file
from edgecore.progress import task


def command(
    file: ProgramFile,
    expect: Annotated[Path, typer.Option(metavar="EXPECT.toml", help="The limits; docs/ci.md lists the keys.")],
    write: Annotated[
        bool, typer.Option("--write", help="Write EXPECT.toml, with the figures of the file as limits.")
    ] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Compare a file with limits for size, memory, operators, delegates, and time relative to another file."""
    with failing_with(2):
        from edgecore.devtools.budget import check_budget, figures, write_expectation
        from edgecore.devtools.random_inputs import random_arguments

        read_file(file)
        if write:
            if expect.exists():
                raise EdgecoreError(f"{expect} exists already; remove it, or choose another name with --expect")
            write_file(expect, write_expectation(figures(file)))
            print(expect)
            return
        with task("comparing"):
            broken = check_budget(
                file,
                expect,
                data=data or (),
                arguments=lambda loaded, path: random_arguments(path, loaded.name, loaded.inputs),
            )
    if as_json:
        print_json({"file": str(file), "within": not broken, "broken": broken})
    elif not broken:
        print(f"{file}: within the limits of {expect}")
    for sentence in broken:
        complain(f"{file}: {sentence}")
    if broken:
        raise typer.Exit(1)
