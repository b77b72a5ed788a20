"""Commands of installed packages: entry points in group `edgecore.commands`, named after the command.

    [project.entry-points."edgecore.commands"]
    acme = "edgecore_acme.cli:command"

The object is a function as typer takes it, or a `typer.Typer` with commands of its own. It is imported when its command
is called; the help of `edgecore` names it without.
"""

from __future__ import annotations

from collections.abc import Sequence

import typer

from edgecore.errors import BackendAmbiguous, BackendBroken
from edgecore.plugin.entry_points import COMMANDS, Provider, scan


def add(app: typer.Typer, own: int, arguments: Sequence[str]) -> None:
    """Add to `app`, whose first `own` commands are edgecore's, those of packages that this command line asks for.

    Raises:
        BackendAmbiguous: Two packages have a command of that name.
        BackendBroken: The package's command cannot be imported.
    """
    del app.registered_commands[own:], app.registered_groups[:]  # of an earlier call in this process
    taken = {command.name for command in app.registered_commands}
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    if asked in taken:
        return
    found = [provider for provider in scan(COMMANDS) if provider.name not in taken]
    if asked is None:
        for provider in found:
            app.command(provider.name, help=f"Of the package {provider.distribution}.")(_stub)
        return
    found = [provider for provider in found if provider.name == asked]
    if len(found) > 1:
        names = " and ".join(sorted(provider.distribution for provider in found))
        raise BackendAmbiguous(f"the command {asked!r} is provided by {names}; uninstall one of them")
    for provider in found:
        _load(app, provider)


def _stub() -> None:
    """Stands for a command in the help of `edgecore`, which is all that can be asked for where it is registered."""


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
