"""The `edgecore` command: one module a command. Exit status 0 done, 1 it failed, 2 wrong usage."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from edgecore.cli import (
    backends,
    bench,
    compile,
    conformance,
    doctor,
    extract,
    inspect,
    kernels,
    new_backend,
    plugin_commands,
    run,
    verify,
)
from edgecore.cli.common import complain, debugging, sentence

app = typer.Typer(
    name="edgecore",
    help="Compile PyTorch models for edge devices, run the files, look into them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text: it is read in logs and by programs too
)


def _print_version(asked: bool) -> None:
    if asked:
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
    """Compile PyTorch models for edge devices, run the files, look into them."""


for _command in (compile, run, bench, inspect, extract, verify, kernels, backends, doctor, new_backend, conformance):
    app.command(_command.__name__.rpartition(".")[2].replace("_", "-"))(_command.command)
_OWN = len(app.registered_commands)


def main() -> None:
    """Run the command line of this process; ends it with the exit status."""
    # --debug is understood anywhere in the line.
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        plugin_commands.add(app, _OWN, arguments)
        app(arguments, prog_name="edgecore")
    except Exception as error:
        if debugging():
            traceback.print_exc()
        complain(sentence(error))
        sys.exit(1)
