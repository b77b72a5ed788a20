"""`edgecore track`: keep the history of a file's figures. Exit status: 0, 1 after a regression, 2 failure."""

from __future__ import annotations

import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from edgecore.cli.common import (
    Data,
    Json,
    Method,
    ProgramFile,
    Threads,
    choose_method,
    complain,
    failing_with,
    print_json,
    read_file,
)
from edgecore.progress import task

KINDS = ("size", "memory", "operators", "time")
"""The words of `--fail-on`. A copy of `devtools.track.KINDS`, whose import would slow down all commands."""


def command(
    file: ProgramFile,
    history: Annotated[Path, typer.Option(metavar="H.jsonl", help="The history; a line is appended to it.")],
    runs: Annotated[int, typer.Option(metavar="N", min=0, help="Number of measured runs; 0 runs nothing.")] = 50,
    label: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Name of the entry; by default the commit of this folder.")
    ] = None,
    method: Method = None,
    threads: Threads = None,
    data: Data = None,
    fail_on: Annotated[
        str, typer.Option(metavar="LIST", help="Exit with 1 if one of these has become worse.")
    ] = ",".join(KINDS),
    accept: Annotated[bool, typer.Option("--accept", help="Begin a new baseline with this entry.")] = False,
    as_json: Json = False,
) -> None:
    """Append size, memory, operators and time of a file to a history, show it, and find what has become worse."""
    watched = [name.strip() for name in fail_on.split(",") if name.strip()]
    for name in watched:
        if name not in KINDS:
            raise typer.BadParameter(f"--fail-on knows {', '.join(KINDS)}; got {name!r}")
    with failing_with(2):
        from edgecore.devtools.random_inputs import random_arguments
        from edgecore.devtools.track import append, history_text, measure, read_history, regressions

        entries = read_history(history)
        names = [plan.name for plan in read_file(file).program.execution_plan]
        chosen = choose_method(names, method, file) if runs or method else "forward"
        with task(f"running {chosen} {runs} times" if runs else "reading"):
            entry = measure(
                file,
                label=_commit() if label is None else label,
                runs=runs,
                method=chosen,
                threads=threads,
                data=data or (),
                arguments=lambda loaded, path: random_arguments(path, chosen, loaded.inputs),
            )
        worse = {} if accept else regressions(entries, entry)
        entry.accepted, entry.regressed = accept, list(worse)
        append(history, entry)
        if as_json:
            print_json({"entry": asdict(entry), "regressions": worse})
        else:
            print(history_text([*entries, entry], entry.file))
    for kind, sentence in worse.items():
        complain(f"{file}: {kind}: {sentence}")
    if set(worse) & set(watched):
        raise typer.Exit(1)


def _commit() -> str:
    """Return the commit of the current folder; empty outside of a repository."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
