"""`edgecore profile`: run a file with traces, and show where its time goes."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgecore.cli.common import Data, DeviceBuild, DeviceName, File, Method, Threads, choose_method, read_file
from edgecore.errors import EdgecoreError
from edgecore.files import write_file
from edgecore.progress import task
from edgecore.sdk.commands import takes

if TYPE_CHECKING:
    from edgecore.devtools.profiling import Profile


class By(str, Enum):
    """The values of `--by`: a copy of `summary.GROUPS`, because importing `summary` would slow down all commands."""

    operator = "operator"
    module = "module"
    backend = "backend"
    line = "line"
    kernel = "kernel"


@dataclass(frozen=True)
class ProfileArguments:
    """The arguments of `edgecore profile`, in the form that typer reads; an absent option is None."""

    file: File
    method: Method = None
    inputs: Annotated[
        list[Path] | None,
        typer.Option("--input", metavar="X.npy", help="Repeat for each input, in order; by default inputs are random."),
    ] = None
    data: Data = None
    threads: Threads = None
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="Number of measured runs.")] = 50
    warmup: Annotated[int, typer.Option(metavar="N", min=0, help="Number of runs before them.")] = 5
    by: Annotated[By, typer.Option(help="What to sum up times by.")] = By.operator
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Number of rows.")] = 20
    html: Annotated[Path | None, typer.Option(metavar="OUT", help="Write a page for a browser, in one file.")] = None
    chrome: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the runs for chrome://tracing and ui.perfetto.dev.")
    ] = None
    speedscope: Annotated[Path | None, typer.Option(metavar="OUT", help="Write the runs for speedscope.app.")] = None
    as_json: Annotated[Path | None, typer.Option("--json", metavar="OUT", help="Write all figures as JSON.")] = None
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="TRACE",
            help="Show a trace of the file instead of running it: an ETDump, or the records of firmware (.ectr).",
        ),
    ] = None
    etdp: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the runs as an ETDump, for ExecuTorch's Inspector.")
    ] = None
    device: DeviceName = None
    device_build: DeviceBuild = None


@takes(ProfileArguments)
def command(arguments: ProfileArguments) -> None:
    """Run a file with traces, and show which operators, modules, backends or source lines take its time."""
    if arguments.source and arguments.device:
        raise EdgecoreError("--from shows a trace that exists, and --device makes one; leave out one of them")
    by = arguments.by.value
    result = _profile(arguments)
    print(result.table(by, arguments.top, min(shutil.get_terminal_size((100, 24)).columns, 140)))
    if arguments.html:
        write_file(arguments.html, result.to_html())
    if arguments.chrome:
        write_file(arguments.chrome, json.dumps(result.to_chrome()))
    if arguments.speedscope:
        write_file(arguments.speedscope, json.dumps(result.to_speedscope()))
    if arguments.as_json:
        write_file(arguments.as_json, json.dumps(result.as_dict(by)))
    if arguments.etdp:
        result.trace.save(arguments.etdp)


def _profile(arguments: ProfileArguments) -> Profile:
    """Run the file here or on a device, or read the trace of `--from`."""
    from edgecore.cli.commands.run import read_arguments
    from edgecore.devtools.profiling import profile, profile_of_trace

    file, inputs = arguments.file, arguments.inputs or ()
    names = [plan.name for plan in read_file(file).program.execution_plan]
    method = choose_method(names, arguments.method, file)
    if arguments.source:
        return profile_of_trace(file, arguments.source, method)
    runs, warmup = arguments.runs, arguments.warmup
    if arguments.device:
        from edgecore.cli.device import profile_there

        return profile_there(arguments, method)
    with task(f"running {method} {warmup + runs} times"):
        return profile(
            file,
            method=method,
            runs=runs,
            warmup=warmup,
            threads=arguments.threads,
            data=arguments.data or (),
            arguments=lambda loaded: read_arguments(file, method, loaded.inputs, inputs),
        )
