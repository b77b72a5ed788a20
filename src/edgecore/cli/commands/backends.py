"""`edgecore backends`: list the installed backends, or the options and operators of one backend."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgecore.cli.common import Json, print_json, stdout
from edgecore.errors import BackendBroken, EdgecoreError
from edgecore.progress import task

if TYPE_CHECKING:
    from edgecore.plugin.api import InstalledBackend
    from edgecore.plugin.installed.entry_points import Provider


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Show the options for compiling and loading, and the operators, of this backend; needs torch.",
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown tables for the backend's README.")
    ] = False,
    manifests: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write a manifest for each backend; edgecore-run --backend-path FOLDER finds them."
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(min=0.1, metavar="SECONDS", help="Time limit for importing a package and for each call to it."),
    ] = 20,
    as_json: Json = False,
) -> None:
    """List the installed backends and their state, or the options and operators of one backend."""
    if manifests is not None:
        if name is not None or markdown or as_json:
            raise EdgecoreError("--manifests cannot be combined with NAME, --markdown or --json")
        _write_manifests(manifests)
        return
    if name is not None:
        _show_one(name, seconds, markdown, as_json)
        return
    if markdown:
        raise EdgecoreError("--markdown needs the NAME of a backend")
    from rich.table import Column, Table

    from edgecore.devtools.printable import printable
    from edgecore.plugin.diagnosis import isolated_import

    installed, _ = isolated_import.installed(seconds)
    if as_json:
        fields = ("backend_id", "name", "distribution", "version", "state", "summary", "problem", "ambiguous")
        paths = _libraries(installed, seconds)
        print_json(
            [
                {field: getattr(backend, field) for field in fields}
                | {"library": paths.get((backend.backend_id, backend.distribution))}
                for backend in installed
            ]
        )
        return
    if not installed:
        from edgecore.plugin.installed.known_backends import known_backends

        print("No backend is installed. To install one:")
        for row in known_backends():
            print(f"  pip install {row.package:<20} {row.summary}")
        return
    titles = ("name", "backend id", "package", "state", "summary")
    table = Table(*(Column(title, overflow="fold") for title in titles))  # wrap long names instead of truncating them
    for backend in installed:
        state = "ambiguous" if backend.ambiguous and backend.state == "ok" else backend.state
        remark = backend.problem if backend.state != "ok" else backend.summary
        cells = (backend.name or "?", backend.backend_id, f"{backend.distribution} {backend.version}", state, remark)
        table.add_row(*map(printable, cells))
    stdout.print(table, markup=False)


def _key(provider: Provider) -> tuple[str, str]:
    return provider.name, provider.distribution


def _libraries(backends: Sequence[InstalledBackend], seconds: float) -> dict[tuple[str, str], str | None]:
    """Return the path of each backend's native library, which edgecore-run accepts as --backend; None without one."""
    from edgecore.plugin import registry
    from edgecore.plugin.diagnosis import isolated_import

    usable = {(backend.backend_id, backend.distribution) for backend in backends if backend.info}
    tasks = [
        isolated_import.Task("library", provider) for provider in registry.providers_here() if _key(provider) in usable
    ]
    return {_key(task.provider): trial.answer for task, trial in zip(tasks, isolated_import.run(tasks, seconds))}


def _load_options(library: str | None) -> list[dict[str, Any]]:
    """Return name, type and help of each option for loading; none if the native library is missing or broken."""
    from edgecore.plugin.diagnosis.doctor import probe

    declared = {} if library is None else probe(library)
    options = [] if isinstance(declared, str) else declared.get("options", [])
    return [{key: row[key] for key in ("name", "type", "help")} for row in options if "load" in row["when"]]


def _write_manifests(folder: Path) -> None:
    from edgecore.plugin.installed.manifests import write_manifests

    written, problems = write_manifests(folder)
    for path in written:
        print(path)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not written:
        raise EdgecoreError("no installed backend can be used; `edgecore doctor` says why")


def _show_one(name: str, seconds: float, markdown: bool, as_json: bool) -> None:
    from edgecore.plugin import documentation, registry
    from edgecore.plugin.diagnosis import isolated_import

    with task(f"importing the compiler of {name}"):
        isolated_import.installed(seconds)
        info = registry.find_by_name(name)
        provider = registry.provider_of(info)
        tasks = [isolated_import.Task("tables", provider), isolated_import.Task("library", provider)]
        trial, library = isolated_import.run(tasks, seconds)
    if trial.problem:
        raise BackendBroken(trial.problem)
    options, operators = trial.answer["options"], trial.answer["operators"]
    tables = ((documentation.OPTION_TITLES, options), (documentation.OPERATOR_TITLES, operators))
    if markdown:
        print("\n".join(documentation.markdown(titles, rows) for titles, rows in tables), end="")
        return
    load_options = _load_options(library.answer)
    if as_json:
        option_list, operator_list = ([dict(zip(titles, row)) for row in rows] for titles, rows in tables)
        answer = {"options": option_list, "load_options": load_options, "operators": operator_list}
        print_json({"name": info.name, "backend_id": info.backend_id} | answer)
    else:
        print(f"{info.name} ({info.backend_id}): {info.summary}")
        _print_entries("option", [(key, f"{kind}, by default {default}", text) for key, kind, default, text in options])
        _print_entries("load option", [(row["name"], row["type"], row["help"]) for row in load_options])
        _print_entries("operator", operators)


def _print_entries(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print rows of (name, facts, text): the name on a line, as users copy it, with the text below, as wide as fits.

    Columns would leave a few letters for the text beside long names.
    """
    from edgecore.devtools.printable import printable

    if not rows:
        print(f"the backend declares no {title}s")
        return
    print(f"\n{title}s:")
    for name, facts, text in (map(printable, row) for row in rows):
        print(f"  {name}: {facts}" if facts else f"  {name}")
        if text:
            print(fill(text, min(max(stdout.width, 40), 120), initial_indent="      ", subsequent_indent="      "))
