"""Write several files under temporary names, and rename them once all of them are complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from edgecore.errors import WriteError


def write_files(writers: Mapping[Path, Callable[[BinaryIO], object]]) -> None:
    """Write each file to `NAME.partial` in the same folder, then rename all of them; existing files are replaced.

    Args:
        writers: Path -> function that writes the content to an open binary file.

    Raises:
        WriteError: A file cannot be written; then no existing file has changed.
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
        for path, source in partial.items():
            source.replace(path)
    except OSError as error:
        if isinstance(error, WriteError):
            raise
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        for source in partial.values():
            source.unlink(missing_ok=True)
