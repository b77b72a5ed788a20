"""`edgecore new-backend`: write a complete package for a new backend from `templates/new_backend`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from edgecore.errors import EdgecoreError
from edgecore.files import new_folder

_TEMPLATES = Path(__file__).parents[1] / "templates" / "new_backend"
_MAGIC_SIZE = 8
_MAX_NAME = 32


def render(name: str) -> dict[str, str]:
    """Fill the templates of the package `edgecore-NAME`.

    Args:
        name: A valid name of a backend.

    Returns:
        The text of each file, by its path in the folder of the package.
    """
    words = _words(name)
    return {
        _fill(path.relative_to(_TEMPLATES).as_posix().removesuffix(".in"), words): _fill(
            path.read_text(encoding="utf-8"), words
        )
        for path in sorted(_TEMPLATES.rglob("*.in"))
    }


def _fill(text: str, words: dict[str, str]) -> str:
    return re.sub(r"@(\w+)@", lambda match: words[match[1]], text)


def _words(name: str) -> dict[str, str]:
    """Return the replacement of each `@word@` in a template."""
    from importlib.metadata import version

    ident = name.replace("-", "_")
    magic = ident.upper()[:_MAGIC_SIZE]
    zeros = _MAGIC_SIZE - len(magic)
    major, minor = version("edgecore").split(".")[:2]
    return {
        "name": name,
        "ident": ident,
        "Name": "".join(part.capitalize() for part in ident.split("_")),
        "NAME": ident.upper(),
        "magic": magic,
        "magic_bytes": f'b"{magic}' + "\\0" * zeros + '"',
        "magic_chars": ", ".join([*(f"'{letter}'" for letter in magic), *["0"] * zeros]),
        "requires": f">={major}.{minor},<{major}.{int(minor) + 1}",
    }


def _check(name: str) -> None:
    """Raise `EdgecoreError` if the name is not valid, or if an installed backend already has this name."""
    from edgecore.plugin.diagnosis import isolated_import
    from edgecore.plugin.installed.entry_points import normalised

    if name.startswith("edgecore") and (short := name.removeprefix("edgecore").lstrip("-_")):
        raise EdgecoreError(
            f"{name!r} is the name of a package; pass the name of the backend: edgecore new-backend {short}"
        )
    if len(name) > _MAX_NAME or not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name):
        raise EdgecoreError(
            f"{name!r} is not a valid name for a backend; use up to {_MAX_NAME} lower-case letters and digits, a "
            "letter first, with single - or _ between them, such as acme or acme-npu"
        )
    backend_id, distribution = f"{_words(name)['Name']}Backend", normalised(f"edgecore-{name}")
    for backend in isolated_import.installed()[0]:
        if name == backend.name or backend_id == backend.backend_id or distribution == backend.distribution:
            raise EdgecoreError(
                f"{backend.distribution} {backend.version}, which is installed, has a backend "
                f"{backend.name or backend.backend_id} already; choose another name"
            )


def command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the backend for its users, in lower case, such as acme.")
    ],
    into: Annotated[
        Path, typer.Option("--into", metavar="FOLDER", help="Folder in which to create the folder edgecore-NAME.")
    ] = Path(),
) -> None:
    """Write the package of a new backend, which builds, installs and passes its tests at once.

    The new backend supports add, mul and relu; replace its parts by those for your hardware.
    """
    _check(name)
    folder = into / f"edgecore-{name}"
    if folder.exists():
        raise EdgecoreError(f"{folder} exists already; remove it, or choose another folder with --into")
    with new_folder(folder) as place:
        for path, text in render(name).items():
            file = place / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    print(f"""{folder}: a backend that supports add, mul and relu. To build, install and check it:

  cd {folder}
  pip install ".[compile]" --group test
  python -m pytest
  edgecore conformance {name}

README.md and docs/internals.md say what to replace.""")
