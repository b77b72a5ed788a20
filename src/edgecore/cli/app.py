"""The typer application that joins all commands of `edgecore`, and its help."""

from __future__ import annotations

import os
import sys
import traceback
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

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
from edgecore.cli.common import complain, debugging, report_interrupt, sentence
from edgecore.processes.interrupts import raise_at_signals
from edgecore.progress import shown

_SECTIONS = {
    "Compile and run": (compile, run, bench, bundle),
    "Look into a file": (inspect, graph, profile, compare, diff, verify, extract),
    "Choose and keep figures": (search, sweep, budget, track),
    "Backends and kernels": (backends, doctor, new_backend, conformance, kernels),
}
"""Sections of the help, each with the modules of its commands, in the order in which a newcomer needs them."""
_WHOLE_SENTENCE = 200
"""Maximum length of a command's description in the help; no description is longer, so none is cut."""
_OF_PACKAGES = "Commands of installed packages"


def _name(command: ModuleType) -> str:
    return command.__name__.rpartition(".")[2].replace("_", "-")


class _Sections(TyperGroup):
    """A typer group whose help lists the commands by section."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command and show its progress; typer alone would end it silently at Ctrl-C."""
        try:
            with shown():
                return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(report_interrupt(interrupt)) from interrupt

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of the help's sections; by default typer sorts them."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the help's list of commands: one section after the other, with one line for each command."""
        sections = {title: [_name(command) for command in commands] for title, commands in _SECTIONS.items()}
        built_in = {name for names in sections.values() for name in names}
        sections[_OF_PACKAGES] = [name for name in self.commands if name not in built_in]
        for title, names in sections.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl(
                        [(name, self.commands[name].get_short_help_str(_WHOLE_SENTENCE)) for name in names]
                    )


app = typer.Typer(
    name="edgecore",
    cls=_Sections,
    help="Compile PyTorch models for edge devices; run, inspect and verify the files.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # print the help as plain text, which logs and programs can read, too
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


for _commands in _SECTIONS.values():
    for _command in _commands:
        app.command(_name(_command))(_command.command)
_BUILT_IN = len(app.registered_commands)


def run_command_line() -> None:
    """Run the command line of this process, and end the process with the exit status."""
    raise_at_signals()
    # Remove --debug before typer parses the arguments, because it is accepted at any position.
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        plugin_commands.add(app, _BUILT_IN, arguments)
        try:
            app(arguments, prog_name="edgecore")
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        sys.exit(report_interrupt(interrupt))
    except BrokenPipeError:
        # The reader, such as `head`, closed the pipe. Redirect stdout so that the flush at exit fails silently.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if debugging():
            traceback.print_exc()
        complain(sentence(error))
        sys.exit(1)
