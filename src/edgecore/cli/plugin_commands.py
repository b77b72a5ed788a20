"""Commands that installed packages add to `edgecore`, by entry points in the group `edgecore.commands`.

    [project.entry-points."edgecore.commands"]
    acme = "edgecore_acme.cli:command"

The entry point has the name of the command. Its object is a function that typer accepts as a command, or a
`typer.Typer` with several commands. A call of the command imports the package; the help of `edgecore` does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import typer

from edgecore.errors import BackendAmbiguous, BackendBroken
from edgecore.plugin.installed.entry_points import COMMANDS, Provider, scan


def add(app: typer.Typer, built_in: int, arguments: Sequence[str]) -> None:
    """Add the command that the command line calls. If it calls none, add the commands of all packages, for the help.

    Args:
        app: The command line of edgecore.
        built_in: Number of edgecore's own commands, which are the first ones of `app`.
        arguments: Arguments of the process.

    Raises:
        BackendAmbiguous: Several packages provide the called command.
        BackendBroken: The package's command cannot be imported.
    """
    del app.registered_commands[built_in:], app.registered_groups[:]  # remove what an earlier call has added
    taken = {command.name for command in app.registered_commands}
    called = next((argument for argument in arguments if not argument.startswith("-")), None)
    if called in taken:
        return
    providers = [provider for provider in scan(COMMANDS) if provider.name not in taken]
    if called is None:
        for provider in providers:
            app.command(provider.name, help=f"Command of the package {provider.distribution}.")(_stub)
        return
    providers = [provider for provider in providers if provider.name == called]
    if len(providers) > 1:
        names = " and ".join(sorted(provider.distribution for provider in providers))
        raise BackendAmbiguous(f"the command {called!r} is provided by {names}; uninstall one of them")
    for provider in providers:
        _load(app, provider)


def _stub() -> None:
    """Placeholder that shows a package's command in the help of `edgecore`; it is never called."""


def _load(app: typer.Typer, provider: Provider) -> None:
    name = provider.name
    try:
        loaded = provider.load()
        if not callable(loaded):
            raise TypeError(f"{provider.value} is a {type(loaded).__name__}, neither a function nor a typer.Typer")
    except Exception as error:
        raise BackendBroken(
            f"the command {name!r} of {provider.distribution} {provider.version} cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error
    if isinstance(loaded, typer.Typer):
        app.add_typer(loaded, name=name)
    else:
        app.command(name)(loaded)
