"""`edgecore diff`: compare two files. Exit status: 0, 1 if a section of --fail-on differs, 2 failure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgecore.cli.common import File, Method, choose_method, failing_with, read_file
from edgecore.files import write_file
from edgecore.progress import task
from edgecore.sdk.commands import takes

if TYPE_CHECKING:
    from edgecore.devtools.file_diff import Diff

SECTIONS = ("size", "signature", "operators", "weights", "memory", "time")
"""The words of `--fail-on`. A copy of `devtools.file_diff.SECTIONS`, whose import would slow down all commands."""


@dataclass(frozen=True)
class DiffArguments:
    """The arguments of `edgecore diff`, in the form that typer reads; an absent option is None."""

    a: File
    b: Annotated[Path, typer.Argument(metavar="OTHER.pte", help="The file to compare it with.")]
    trace: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A.etdp B.etdp", help="Compare the times of two ETDumps, of `edgecore profile --etdp`."),
    ] = None
    runs: Annotated[
        int, typer.Option(metavar="N", min=0, help="Run both files here N times, in turns, and compare the times.")
    ] = 0
    method: Method = None
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of threads for --runs.")] = None
    data_a: Annotated[
        list[Path] | None, typer.Option("--data-a", metavar="FILE.ptd", help="Weights of the first file.")
    ] = None
    data_b: Annotated[
        list[Path] | None, typer.Option("--data-b", metavar="FILE.ptd", help="Weights of the second file.")
    ] = None
    as_json: Annotated[Path | None, typer.Option("--json", metavar="OUT", help="Write everything as JSON.")] = None
    html: Annotated[Path | None, typer.Option(metavar="OUT", help="Write a page for a browser, in one file.")] = None
    fail_on: Annotated[
        str, typer.Option(metavar="LIST", help="Exit with 1 if one of these differs: " + ",".join(SECTIONS))
    ] = ""


@takes(DiffArguments)
def command(arguments: DiffArguments) -> None:
    """Compare two files: bytes, inputs and outputs, placement of operators, weights, memory and time."""
    sections = [name.strip() for name in arguments.fail_on.split(",") if name.strip()]
    for name in sections:
        if name not in SECTIONS:
            raise typer.BadParameter(f"--fail-on knows {', '.join(SECTIONS)}; got {name!r}")
    if arguments.trace and arguments.runs:
        raise typer.BadParameter("--trace and --runs both give times; leave out one")
    with failing_with(2):
        result = _diff(arguments, needs_times="time" in sections)
        print(result.text())
        if arguments.html:
            write_file(arguments.html, result.to_html())
        if arguments.as_json:
            write_file(arguments.as_json, json.dumps(result.as_dict(), indent=2))
    if set(sections) & set(result.different()):
        raise typer.Exit(1)


def _diff(arguments: DiffArguments, needs_times: bool) -> Diff:
    from edgecore.devtools.file_diff import FEWEST, diff
    from edgecore.devtools.random_inputs import random_arguments

    a, b, trace, runs = arguments.a, arguments.b, arguments.trace, arguments.runs
    if needs_times and not trace:
        runs = runs or 50
        if runs < FEWEST:
            raise typer.BadParameter(f"--fail-on time needs --runs of at least {FEWEST}; got {runs}")
    names = [plan.name for plan in read_file(a).program.execution_plan]
    # Times are compared for one method, everything else for all methods.
    method = choose_method(names, arguments.method, a) if runs or trace or arguments.method else "forward"
    read_file(b)
    with task(f"running both files {runs} times" if runs else "comparing"):
        return diff(
            a,
            b,
            traces=trace,
            runs=runs,
            method=method,
            data=(arguments.data_a or (), arguments.data_b or ()),
            threads=arguments.threads,
            arguments=lambda loaded, file: random_arguments(file, method, loaded.inputs),
        )
