"""`edgecore doctor`: what does not work here, and the command that mends it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from edgecore.cli.common import progress, stdout


def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A backend; all of them if left out.")] = None,
) -> None:
    """Check the installed backends. Exit status 1 if one has a problem."""
    from edgecore.plugin.doctor import diagnose

    with progress("checking the installed backends"):
        diagnoses = diagnose(name)
    if not diagnoses:
        print("no backend is installed; `edgecore backends` lists what there is")
    for diagnosis in diagnoses:
        backend = diagnosis.backend
        stdout.print(
            f"[bold]{backend.name or backend.backend_id}[/bold] ({backend.backend_id}, {backend.distribution} {backend.version})"
        )
        for finding in diagnosis.findings:
            mark = "[green]ok[/green]     " if finding.ok else "[red]problem[/red]"
            stdout.print(f"  {mark} {finding.check}: {escape(finding.detail)}", soft_wrap=True)
            if finding.remedy:
                stdout.print(
                    f"          {'to change' if finding.ok else 'mend'}: {escape(finding.remedy)}", soft_wrap=True
                )
    if not all(diagnosis.ok for diagnosis in diagnoses):
        raise typer.Exit(1)
