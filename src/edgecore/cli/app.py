"""The application of typer that joins the commands."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated

import typer

from edgecore.cli import plugin_commands
from edgecore.cli.commands import (
    backends,
    bench,
    budget,
    bundle,
    compare,
    compile,
    conformance,
    diff,
    doctor,
    extract,
    graph,
    inspect,
    kernels,
    new_backend,
    profile,
    run,
    search,
    sweep,
    track,
    verify,
)
from edgecore.cli.common import complain, debugging, sentence

app = typer.Typer(
    name="edgecore",
    help="Compile PyTorch models for edge devices; run, inspect and verify the files.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text, which is also readable in logs and by programs
)


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        print(f"edgecore {version('edgecore')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")] = False,
) -> None:
    """Compile PyTorch models for edge devices; run, inspect and verify the files."""


for _command in (
    compile,
    run,
    bench,
    profile,
    compare,
    bundle,
    inspect,
    graph,
    diff,
    budget,
    track,
    sweep,
    search,
    extract,
    verify,
    kernels,
    backends,
    doctor,
    new_backend,
    conformance,
):
    app.command(_command.__name__.rpartition(".")[2].replace("_", "-"))(_command.command)
_BUILT_IN = len(app.registered_commands)


def run_command_line() -> None:
    """Run the command line of this process, and end the process with the exit status."""
    # --debug is accepted anywhere in the command line.
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        plugin_commands.add(app, _BUILT_IN, arguments)
        try:
            app(arguments, prog_name="edgecore")
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough. What Python flushes at exit goes nowhere, without a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if debugging():
            traceback.print_exc()
        complain(sentence(error))
        sys.exit(1)
