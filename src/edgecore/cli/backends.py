"""`edgecore backends`: what is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecore.cli.common import Json, print_json, stdout

if TYPE_CHECKING:
    from edgecore.plugin.types import InstalledBackend


def command(as_json: Json = False) -> None:
    """List the installed backends and their state."""
    from rich.table import Column, Table

    from edgecore.plugin.registry import installed

    found = installed()
    if as_json:
        fields = ("backend_id", "name", "distribution", "version", "state", "summary", "problem", "ambiguous")
        print_json(
            [{field: getattr(backend, field) for field in fields} | {"library": _library(backend)} for backend in found]
        )
        return
    if not found:
        from edgecore.plugin.known import known_backends

        print("No backend is installed. To add one:")
        for row in known_backends():
            print(f"  pip install {row.package:<20} {row.summary}")
        return
    titles = ("name", "backend id", "package", "state", "what for")
    table = Table(*(Column(title, overflow="fold") for title in titles))  # a name cut short is of no use
    for backend in found:
        state = "ambiguous" if backend.ambiguous and backend.state == "ok" else backend.state
        remark = backend.problem if backend.state != "ok" else backend.summary
        table.add_row(
            backend.name or "?", backend.backend_id, f"{backend.distribution} {backend.version}", state, remark
        )
    stdout.print(table)


def _library(backend: InstalledBackend) -> str | None:
    """Path of its native library (what edgecore-run takes as --backend); None if it has none or cannot tell."""
    if backend.info is None or backend.info.native_library is None:
        return None
    try:
        return str(backend.info.native_library())
    except Exception:
        return None
