"""Write manifests, in which C++ applications find backends: see `Module::find_backend` in edgecore/module.h.

A manifest is a JSON file `NAME.json` with the keys

- `abi`: version of the native interface for which the library was built, as the library declares it;
- `backend_id`: id of the backend;
- `library`: absolute path of the library;
- `options`: options for loading; missing if the package declares none.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from edgecore.errors import BackendError
from edgecore.plugin import registry
from edgecore.plugin.backend_info import BackendInfo
from edgecore.plugin.diagnosis.doctor import probe


def write_manifests(folder: Path) -> tuple[list[Path], list[str]]:
    """Write the manifests of all usable backends that have a native library.

    Args:
        folder: Folder for the files; it is created if it does not exist.

    Returns:
        The paths of the files, and one sentence for each installed backend that cannot be used.
    """
    from edgecore.plugin.diagnosis import isolated_import

    folder.mkdir(parents=True, exist_ok=True)
    written, problems = [], []
    for backend_id in dict.fromkeys(backend.backend_id for backend in isolated_import.installed()[0]):
        try:
            info = registry.find(backend_id)
            (trial,) = isolated_import.run([isolated_import.Task("library", registry.provider_of(info))])
            if trial.hangs:
                raise BackendError(f"backend {info.name!r} cannot be asked for its library: {trial.problem}")
            content = manifest(info)
        except BackendError as error:
            problems.append(str(error))
            continue
        if content is not None:
            path = folder / f"{info.name}.json"
            # A path may contain bytes that are not UTF-8. os.fsencode writes them unchanged, as the C++ reader expects.
            path.write_bytes(os.fsencode(json.dumps(content, indent=2, ensure_ascii=False) + "\n"))
            written.append(path)
    return written, problems


def manifest(info: BackendInfo) -> dict[str, Any] | None:
    """Make the manifest of a backend.

    Returns:
        The content of the JSON file; None if the backend only compiles.

    Raises:
        BackendError: The library does not load, or an option has a type that a manifest cannot hold.
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
                "a manifest can hold strings, integers and booleans"
            )
    abi = ".".join(map(str, declared["abi"]))
    content: dict[str, Any] = {"abi": abi, "backend_id": info.backend_id, "library": library}
    return {**content, "options": options} if options else content
