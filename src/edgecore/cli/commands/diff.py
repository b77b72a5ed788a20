"""`edgecore diff`: compare two files. Exit status: 0 same, 1 different in what --fail-on names, 2 failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from edgecore.cli.common import File, Method, choose_method, failing_with, progress, read_file

SECTIONS = ("size", "signature", "operators", "weights", "memory", "time")
"""The words of `--fail-on`: those of `devtools.file_diff`, which is not imported when each command starts."""


def command(
    a: File,
    b: Annotated[Path, typer.Argument(metavar="OTHER.pte", help="The file to compare it with.")],
    trace: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A.etdp B.etdp", help="Compare the times of two ETDumps, of `edgecore profile --etdp`."),
    ] = None,
    runs: Annotated[
        int, typer.Option(metavar="N", min=0, help="Run both files here N times, in turns, and compare the times.")
    ] = 0,
    method: Method = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of threads for --runs.")] = None,
    data_a: Annotated[
        list[Path] | None, typer.Option("--data-a", metavar="FILE.ptd", help="Weights of the first file.")
    ] = None,
    data_b: Annotated[
        list[Path] | None, typer.Option("--data-b", metavar="FILE.ptd", help="Weights of the second file.")
    ] = None,
    as_json: Annotated[Path | None, typer.Option("--json", metavar="OUT", help="Write everything as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="OUT", help="Write a page for a browser, in one file.")] = None,
    fail_on: Annotated[
        str, typer.Option(metavar="LIST", help="Exit with 1 if one of these differs: " + ",".join(SECTIONS))
    ] = "",
) -> None:
    """Compare two files: bytes, inputs and outputs, placement of operators, weights, memory and time."""
    named = [name.strip() for name in fail_on.split(",") if name.strip()]
    for name in named:
        if name not in SECTIONS:
            raise typer.BadParameter(f"--fail-on knows {', '.join(SECTIONS)}; got {name!r}")
    if trace and runs:
        raise typer.BadParameter("--trace and --runs both give times; leave out one")
    with failing_with(2):
        from edgecore.devtools.file_diff import FEWEST, diff
        from edgecore.devtools.random_inputs import random_arguments

        if "time" in named and not trace:
            runs = runs or 50
            if runs < FEWEST:
                raise typer.BadParameter(f"--fail-on time needs --runs of at least {FEWEST}; got {runs}")
        names = [plan.name for plan in read_file(a).program.execution_plan]
        # Only the times are those of one method.
        name = choose_method(names, method, a) if runs or trace or method else "forward"
        read_file(b)
        with progress(f"running both files {runs} times" if runs else "comparing"):
            found = diff(
                a, b, traces=trace, runs=runs, method=name, data=(data_a or (), data_b or ()), threads=threads,
                arguments=lambda loaded, file: random_arguments(file, name, loaded.inputs),
            )  # fmt: skip
        print(found.text())
        if html:
            html.write_text(found.to_html(), encoding="utf-8")
        if as_json:
            as_json.write_text(json.dumps(found.as_dict(), indent=2), encoding="utf-8")
    if set(named) & set(found.different()):
        raise typer.Exit(1)
