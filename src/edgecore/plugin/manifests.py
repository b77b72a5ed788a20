"""Manifests, by which a C++ application finds the backends of installed packages: see `Module::find_backend` in edgecore/module.h.

A manifest is a JSON file `NAME.json`: `abi`, what the library was built for, asked from the library itself; `backend_id`;
`library`, its absolute path; `options` for loading, where the package gives any.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from edgecore.errors import BackendError
from edgecore.plugin import registry
from edgecore.plugin.backend_info import BackendInfo
from edgecore.plugin.doctor import probe


def write_manifests(folder: Path) -> tuple[list[Path], list[str]]:
    """Write one for each usable backend that has a library, into a folder that is made if it does not exist.

    Returns:
        The files, and a sentence for each installed backend that cannot be used.
    """
    from edgecore.plugin import isolated_import

    folder.mkdir(parents=True, exist_ok=True)
    written, problems = [], []
    for backend_id in dict.fromkeys(backend.backend_id for backend in isolated_import.installed()[0]):
        try:
            info = registry.find(backend_id)
            (tried,) = isolated_import.run([isolated_import.Task("library", registry.provider_of(info))])
            if tried.hangs:
                raise BackendError(f"backend {info.name!r} cannot be asked for its library: {tried.problem}")
            content = manifest(info)
        except BackendError as error:
            problems.append(str(error))
            continue
        if content is not None:
            path = folder / f"{info.name}.json"
            # Paths may hold bytes that are no UTF-8; a reader takes them as they are.
            path.write_bytes(os.fsencode(json.dumps(content, indent=2, ensure_ascii=False) + "\n"))
            written.append(path)
    return written, problems


def manifest(info: BackendInfo) -> dict[str, Any] | None:
    """The manifest of a backend; None if it compiles only.

    Raises:
        BackendError: The library does not load, or an option is of a type that a manifest does not have.
    """
    if info.native_library is None:
        return None
    try:
        library = os.fspath(info.native_library())
        options = dict(info.load_options()) if info.load_options else {}
    except Exception as error:
        raise BackendError(f"the library of backend {info.name!r} cannot be found: {error}") from error
    declared = probe(library)
    if isinstance(declared, str):
        raise BackendError(f"backend {info.name!r}: {declared}; `edgecore doctor {info.name}` tells more")
    for name, value in options.items():
        if not isinstance(value, (bool, int, str)):
            raise BackendError(
                f"backend {info.name!r} gives the option {name} as {type(value).__name__}; "
                "a manifest holds strings, integers and truth values"
            )
    abi = ".".join(map(str, declared["abi"]))
    content: dict[str, Any] = {"abi": abi, "backend_id": info.backend_id, "library": library}
    return {**content, "options": options} if options else content
