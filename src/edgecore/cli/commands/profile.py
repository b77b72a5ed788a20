"""`edgecore profile`: run a file with traces, and show where its time goes."""

from __future__ import annotations

import json
import shutil
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from edgecore.cli.common import Data, DeviceBuild, DeviceName, File, Method, choose_method, progress, read_file
from edgecore.errors import EdgecoreError


class By(str, Enum):
    """The words of `--by`: those of `summary.GROUPS`, which is not imported when each command starts."""

    operator = "operator"
    module = "module"
    backend = "backend"
    line = "line"
    kernel = "kernel"


def command(
    file: File,
    method: Method = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option("--input", metavar="X.npy", help="Repeat for each input, in order; by default inputs are random."),
    ] = None,
    data: Data = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of threads; by default the performance cores.")
    ] = None,
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="Number of measured runs.")] = 50,
    warmup: Annotated[int, typer.Option(metavar="N", min=0, help="Number of runs before them.")] = 5,
    by: Annotated[By, typer.Option(help="What to sum up times by.")] = By.operator,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Number of rows.")] = 20,
    html: Annotated[Path | None, typer.Option(metavar="OUT", help="Write a page for a browser, in one file.")] = None,
    chrome: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the runs for chrome://tracing and ui.perfetto.dev.")
    ] = None,
    speedscope: Annotated[Path | None, typer.Option(metavar="OUT", help="Write the runs for speedscope.app.")] = None,
    as_json: Annotated[Path | None, typer.Option("--json", metavar="OUT", help="Write all figures as JSON.")] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="TRACE",
            help="Show a trace of the file instead of running it: an ETDump, or the records of firmware (.ectr).",
        ),
    ] = None,
    etdp: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the runs as an ETDump, for ExecuTorch's Inspector.")
    ] = None,
    device: DeviceName = None,
    device_build: DeviceBuild = None,
) -> None:
    """Run a file with traces, and show which operators, modules, backends or source lines take its time."""
    from edgecore.cli.commands.run import read_arguments
    from edgecore.devtools.profiling import profile, profile_of_trace

    if source and device:
        raise EdgecoreError("--from shows a trace that exists, and --device makes one; leave out one of them")
    names = [plan.name for plan in read_file(file).program.execution_plan]
    name = choose_method(names, method, file)
    if device:
        from edgecore.cli.device import profile_there

        result = profile_there(device, file, name, inputs or (), runs, warmup, threads, data or (), device_build)
    elif source:
        result = profile_of_trace(file, source, name)
    else:
        with progress(f"running {name} {warmup + runs} times"):
            result = profile(
                file, method=name, runs=runs, warmup=warmup, threads=threads, data=data or (),
                arguments=lambda loaded: read_arguments(file, name, loaded.inputs, inputs or ()),
            )  # fmt: skip
    print(result.table(by.value, top, min(shutil.get_terminal_size((100, 24)).columns, 140)))
    if html:
        html.write_text(result.to_html(), encoding="utf-8")
    written: list[tuple[Path | None, Any]] = [
        (chrome, result.to_chrome), (speedscope, result.to_speedscope), (as_json, lambda: result.as_dict(by.value))
    ]  # fmt: skip
    for path, content in written:
        if path:
            path.write_text(json.dumps(content()), encoding="utf-8")
    if etdp:
        result.trace.save(etdp)
