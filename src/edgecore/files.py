"""Write files under temporary names, and rename them once they are complete: an interruption leaves no half file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from edgecore.errors import WriteError
from edgecore.processes.interrupts import uninterrupted

Content = str | bytes | Callable[[BinaryIO], object]


def write_file(path: str | Path, content: str | bytes) -> None:
    """Write one file as `write_files` does.

    Raises:
        WriteError: The file cannot be written; then an existing file has not changed.
    """
    write_files({Path(path): content})


def write_files(contents: Mapping[Path, Content]) -> None:
    """Write each file to `NAME.partial` in the same folder, then rename all of them; existing files are replaced.

    A device such as `/dev/stdout` and a named pipe are written directly.

    Args:
        contents: Path -> content: bytes, a text (written as UTF-8), or a function that writes to an open binary file.

    Raises:
        WriteError: A file cannot be written; then no existing file has changed.
    """
    # keep a symbolic link, and replace the file to which it points
    targets = {path: path if _is_stream(path) else path.resolve() for path in contents}
    partial = {
        path: target.with_name(target.name + ".partial") for path, target in targets.items() if not _is_stream(path)
    }
    path = Path()
    try:
        for path in contents:
            if not path.parent.is_dir():
                raise WriteError(f"cannot write {path}: the folder {path.parent} does not exist")
            if path.is_dir():
                raise WriteError(f"cannot write {path}: it is a folder")
        for path, content in contents.items():
            with partial.get(path, path).open("wb") as file:
                if callable(content):
                    content(file)
                else:
                    file.write(content.encode() if isinstance(content, str) else content)
        with uninterrupted():
            for path, source in partial.items():
                source.replace(targets[path])
    except OSError as error:
        if isinstance(error, WriteError):
            raise
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with uninterrupted():
            for source in partial.values():
                source.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Make a folder under the name `NAME.partial`, yield its path, and rename it to `path` at the end of the block.

    If the block raises an error or is interrupted, the folder is removed.

    Raises:
        WriteError: `path` exists already, or the folder cannot be made.
    """
    if path.exists():
        raise WriteError(f"cannot write {path}: it exists already")
    partial = path.with_name(path.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        partial.rename(path)
    except OSError as error:
        if isinstance(error, WriteError):
            raise
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with uninterrupted():
            shutil.rmtree(partial, ignore_errors=True)


def _is_stream(path: Path) -> bool:
    """Return True for a device, a pipe or a name of an open file such as `/dev/stdout`, which must not be replaced."""
    return Path("/dev") in path.absolute().parents or (path.exists() and not path.is_file() and not path.is_dir())
