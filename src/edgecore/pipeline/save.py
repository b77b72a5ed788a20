"""Writing several files so that all of them appear or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from edgecore.errors import WriteError


def write_files(writers: Mapping[Path, Callable[[BinaryIO], object]]) -> None:
    """Write each file under a name of its own beside it, then move all of them in place; existing ones are replaced.

    Raises `WriteError` if one cannot be written; then every file is as it was before.
    """
    partial = {path: path.with_name(path.name + ".partial") for path in writers}
    path = Path()
    try:
        for path in writers:
            if not path.parent.is_dir():
                raise WriteError(f"cannot write {path}: the folder {path.parent} does not exist")
            if path.is_dir():
                raise WriteError(f"cannot write {path}: it is a folder")
        for path, write in writers.items():
            with partial[path].open("wb") as file:
                write(file)
        for path, place in partial.items():
            place.replace(path)
    except OSError as error:
        if isinstance(error, WriteError):
            raise
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        for place in partial.values():
            place.unlink(missing_ok=True)
