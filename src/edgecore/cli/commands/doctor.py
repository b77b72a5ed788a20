"""`edgecore doctor`: list the problems of the installed backends, each with the command that fixes it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from edgecore.cli.common import Json, print_json, stdout
from edgecore.progress import task

if TYPE_CHECKING:
    from edgecore.plugin.diagnosis.doctor import Diagnosis, Finding


def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A backend; by default all backends.")] = None,
    seconds: Annotated[
        float,
        typer.Option(min=0.1, metavar="SECONDS", help="Time limit for importing a package and for each call to it."),
    ] = 20,
    as_json: Json = False,
) -> None:
    """Print versions, and check the installed backends and kernel libraries. Exit status 1 if one has a problem."""
    from edgecore.plugin.diagnosis.doctor import diagnose, diagnose_kernels

    with task("checking the installed backends"):
        diagnoses = diagnose(name, seconds)
        libraries = [] if name else diagnose_kernels(seconds)
    versions = _versions()
    if as_json:
        kernels = [
            {key: getattr(provider, key) for key in ("name", "distribution", "version")} | asdict(finding)
            for provider, finding in libraries
        ]
        print_json({"versions": versions, "backends": [_row(diagnosis) for diagnosis in diagnoses], "kernels": kernels})
    else:
        print(", ".join(f"{name} {version}" for name, version in versions.items()))
        _print(name, diagnoses, libraries)
    if not all(diagnosis.ok for diagnosis in diagnoses) or not all(finding.ok for _, finding in libraries):
        raise typer.Exit(1)


def _versions() -> dict[str, str]:
    """Return what a report of a bug needs: versions of edgecore, torch and Python, the system, the processor."""
    from edgecore.devtools.track import processor

    versions = {}
    for package in ("edgecore", "torch"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {**versions, "python": platform.python_version(), "system": platform.platform(), "processor": processor()}


def _row(diagnosis: Diagnosis) -> dict[str, Any]:
    backend = diagnosis.backend
    facts = {key: getattr(backend, key) for key in ("name", "backend_id", "distribution", "version")}
    return {**facts, "ok": diagnosis.ok, "findings": [asdict(finding) for finding in diagnosis.findings]}


def _print(name: str | None, diagnoses: Sequence[Diagnosis], libraries: Sequence[tuple[Any, Finding]]) -> None:
    from edgecore.plugin.diagnosis.doctor import Finding

    if not diagnoses:
        print("no backend is installed; `edgecore backends` lists the packages to install")
    for diagnosis in diagnoses:
        backend = diagnosis.backend
        package = f"{backend.distribution} {backend.version}"
        stdout.print(f"[bold]{backend.name or backend.backend_id}[/bold] ({backend.backend_id}, {package})")
        passed = [finding for finding in diagnosis.findings if finding.is_part and finding.ok]
        if passed and name is None:
            _show(Finding("self-test", True, f"{len(passed)} checks passed"))
        for finding in diagnosis.findings:
            if name or not (finding.is_part and finding.ok):
                _show(finding)
    for provider, finding in libraries:
        stdout.print(f"[bold]{provider.name}[/bold] (operators, {provider.distribution} {provider.version})")
        _show(finding)


def _show(finding: Finding) -> None:
    mark = "[green]ok[/green]     " if finding.ok else "[red]problem[/red]"
    stdout.print(f"  {mark} {finding.check}: {escape(finding.detail)}", soft_wrap=True)
    if finding.remedy:
        stdout.print(f"          {'to change' if finding.ok else 'fix'}: {escape(finding.remedy)}", soft_wrap=True)
