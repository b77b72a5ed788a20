"""`edgecore graph`: show which operators a file runs, in which module and on which backend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from edgecore.cli.common import ProgramFile, read_file
from edgecore.files import write_file


def command(
    file: ProgramFile,
    depth: Annotated[int | None, typer.Option(metavar="N", min=0, help="Number of levels of modules to open.")] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Write nodes and edges as JSON.")
    ] = None,
) -> None:
    """Show the operators of a file as a tree of modules, with backends and sizes."""
    from edgecore.devtools.graph import graph_of

    graph = graph_of(read_file(file))
    print(graph.text(depth))
    if as_json:
        write_file(as_json, json.dumps({"file": file.name, **graph.as_dict()}))
