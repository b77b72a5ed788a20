"""What the commands share: sentences for errors, output, inputs for a method."""

from __future__ import annotations

import array
import io
import json
import logging
import mmap
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console

from edgecore.errors import EdgecoreError, FallbackWarning, QuantizationWarning

if TYPE_CHECKING:
    from edgecore.format import BpteFile, PtdFile, PteFile

File = Annotated[Path, typer.Argument(metavar="FILE.pte", help="A .pte file.")]
AnyFile = Annotated[Path, typer.Argument(metavar="FILE", help="A .pte, .ptd or .bpte file.")]
Data = Annotated[
    list[Path] | None, typer.Option("--data", metavar="FILE.ptd", help="Weights outside the .pte; may be repeated.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Method = Annotated[str | None, typer.Option(metavar="NAME", help="The method, if the file has several.")]

# Progress and remarks go here, results to stdout.
stderr = Console(stderr=True, highlight=False)
stdout = Console(highlight=False)


def complain(text: str) -> None:
    """One sentence on stderr."""
    print(f"edgecore: {text}", file=sys.stderr)


def sentence(error: Exception) -> str:
    """What a failure says to a user. Errors that edgecore raises on purpose are sentences already."""
    text = " ".join(str(error).split())
    if isinstance(error, EdgecoreError):
        return text
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"unexpected {type(error).__name__}: {text} (--debug shows where)"


def debugging() -> bool:
    """Whether --debug stands anywhere in the command line."""
    return "--debug" in sys.argv[1:]


@contextmanager
def hold_stderr() -> Iterator[None]:
    """Keep back what libraries print on stderr and log in the block, and drop it if an EdgecoreError says it all.

    edgecore's own warnings become sentences like the others, without a line of Python.
    """
    if debugging():
        yield
        return
    held = io.StringIO()
    logging.disable(logging.WARNING)
    try:
        with redirect_stderr(held), warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, warnings.showwarning)
            for category in _OWN_WARNINGS:
                warnings.simplefilter("always", category)
            yield
    except EdgecoreError:
        held.truncate(0)
        raise
    finally:
        logging.disable(logging.NOTSET)
        sys.stderr.write(held.getvalue())


_OWN_WARNINGS = (FallbackWarning, QuantizationWarning)


def _show_warning(show: Callable[..., None], message: Warning | str, category: type[Warning], *place: Any) -> None:
    if issubclass(category, _OWN_WARNINGS):
        complain(f"warning: {message}")
    else:
        show(message, category, *place)


def print_json(value: Any) -> None:
    """`value` as JSON on stdout."""
    print(json.dumps(value, indent=2))


@contextmanager
def progress(what: str) -> Iterator[None]:
    """A moving line on a terminal while the block runs, nothing elsewhere."""
    # Its own console, on the stderr of now: the block may redirect it.
    with Console(file=sys.stderr, highlight=False).status(what):
        yield


def read_any(path: Path) -> PteFile | PtdFile | BpteFile:
    """The parsed file, mapped, without the runtime; its identifier says what it is.

    Raises:
        FormatError: It is none of these, or a damaged one; the sentence names it.
    """
    from edgecore.errors import FormatError
    from edgecore.format import BPTE_IDENTIFIER, PTD_IDENTIFIER, read_bpte, read_ptd, read_pte

    with path.open("rb") as file:
        empty = not file.read(1)
        content = memoryview(b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    try:
        if content[4:8] == PTD_IDENTIFIER:
            return read_ptd(content)
        return read_bpte(content) if content[4:8] == BPTE_IDENTIFIER else read_pte(content)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def is_bundled(path: Path) -> bool:
    """Whether it is a `.bpte` file."""
    from edgecore.format import BPTE_IDENTIFIER

    with path.open("rb") as file:
        return file.read(8)[4:] == BPTE_IDENTIFIER


def read_file(path: Path) -> PteFile:
    """The program of a `.pte` or `.bpte`, without the runtime.

    Raises:
        FormatError: It is none, or a damaged one; the sentence names it.
    """
    from edgecore.errors import FormatError
    from edgecore.format import BpteFile, PtdFile, read_pte

    content = read_any(path)
    if isinstance(content, PtdFile):
        raise FormatError(f"{path}: it holds weights for a program, a .pte is needed")
    if isinstance(content, BpteFile):
        try:
            return read_pte(content.program)
        except FormatError as error:
            raise FormatError(f"{path}, its program: {error}") from error
    return content


def choose_method(names: list[str], asked: str | None, path: Path) -> str:
    """The method to run: the one asked for, `forward`, or the only one."""
    if asked is not None:
        if asked not in names:
            raise EdgecoreError(f"{path} has no method {asked!r}; it has {', '.join(names)}")
        return asked
    if "forward" in names:
        return "forward"
    if len(names) == 1:
        return names[0]
    raise EdgecoreError(f"{path} has the methods {', '.join(names)}; choose one with --method")


def random_tensor(shape: tuple[int, ...], dtype: str, seed: int) -> memoryview:
    """A buffer of this shape: floats uniform in [-1, 1), integers and bools 0 or 1. Needs no numpy.

    Raises:
        EdgecoreError: The dtype has no buffer format.
    """
    from edgecore.format.dtypes import DTYPES

    code = next((row.code for row in DTYPES.values() if row.name == dtype), "")
    if code in ("", "e"):  # neither array nor memoryview makes float16
        raise EdgecoreError(f"cannot make up a {dtype} input; give every input with --input FILE.npy")
    generator = random.Random(seed)
    draw = (lambda: generator.random() * 2 - 1) if code in "fd" else (lambda: generator.getrandbits(1))
    count = prod(shape)
    raw: Any = memoryview(array.array(code.replace("?", "B"), (draw() for _ in range(count)))).cast("B")
    # memoryview cannot cast no bytes at all to a shape.
    return cast(memoryview, raw.cast(code, shape) if count else raw.cast(code))
