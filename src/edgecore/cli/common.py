"""Parameters and functions that several commands share: error messages, output, reading files, parsing options."""

from __future__ import annotations

import io
import json
import logging
import mmap
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from edgecore.errors import (
    CalibrationMissing,
    CompileError,
    EdgecoreError,
    FallbackWarning,
    PrecisionWarning,
    QuantizationWarning,
)
from edgecore.processes.interrupts import Interrupted

if TYPE_CHECKING:
    from edgecore.format import BpteFile, PtdFile, PteFile

File = Annotated[Path, typer.Argument(metavar="FILE.pte", help="A .pte file.")]
ProgramFile = Annotated[Path, typer.Argument(metavar="FILE", help="A .pte or .bpte file.")]
AnyFile = Annotated[Path, typer.Argument(metavar="FILE", help="A .pte, .ptd or .bpte file.")]
Data = Annotated[
    list[Path] | None,
    typer.Option("--data", metavar="FILE.ptd", help="File with weights that are not in the .pte; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A .pt2 file of torch.export; module:function, which returns (model, example_inputs[, dynamic_shapes]); "
        "or torchvision:NAME, timm:NAME, transformers:NAME.",
    ),
]
InputShapes = Annotated[
    list[str] | None,
    typer.Option(
        "--input-shape",
        metavar="[NAME=]SHAPE",
        help="Shape of an example input instead of MODEL's own, such as 1x3x192x192. May be repeated: shapes without "
        "NAME are in the order of the inputs.",
    ),
]
LoadOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-b",
        "--backend",
        metavar="NAME:key=value,...",
        help="Options of a backend for loading, which `edgecore backends NAME` lists; double quotes make a string of a "
        "number: 'vulkan:device=\"0\"'. May be repeated.",
    ),
]
Threads = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Number of threads; by default the performance cores.")
]
Runtime = Annotated[str, typer.Option(metavar="RUNTIME", help="The target runtime: executorch-1.5 or edgecore.")]
Method = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the method, if the file has several methods.")
]

DeviceName = Annotated[
    str | None, typer.Option("--device", metavar="DEVICE", help="Run it there: ssh:HOST, adb or adb:SERIAL.")
]
DeviceBuild = Annotated[
    Path | None,
    typer.Option("--device-build", metavar="FOLDER", help="edgecore-run and libraries of backends for the device."),
]

# Progress and notes go to stderr, results to stdout.
stderr = Console(stderr=True, highlight=False)
stdout = Console(highlight=False)


def complain(text: str) -> None:
    """Print one sentence on stderr."""
    from edgecore.devtools.printable import join_lines

    print(f"edgecore: {join_lines(text.splitlines())}", file=sys.stderr)


def sentence(error: Exception) -> str:
    """Format an exception as one sentence for users. The text of an `EdgecoreError` already is a sentence."""
    text = " ".join(str(error).split())
    if isinstance(error, CalibrationMissing):
        recipe = text.partition(" needs calibration")[0]
        return f"{recipe} needs --calibration FOLDER, a folder with samples of real inputs as .npy files"
    if isinstance(error, EdgecoreError):
        return text
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if remedy := install_hint(error):
        return f"this command needs torch, which is not installed; {remedy}"
    return f"unexpected {type(error).__name__}: {text} (--debug shows where)"


def install_hint(error: Exception) -> str:
    """Return how to install torch if `error` says that it is missing, as where files only run; else an empty string."""
    is_missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
    return "run: pip install 'edgecore[compile]'" if is_missing else ""


def report_interrupt(interrupt: KeyboardInterrupt) -> int:
    """Print one line about Ctrl-C or another signal on stderr, and return the exit status of the command."""
    if debugging():
        traceback.print_exception(interrupt)
    known = interrupt if isinstance(interrupt, Interrupted) else Interrupted(signal.SIGINT)
    complain(known.word)
    return known.status


def debugging() -> bool:
    """Return True if the command line contains --debug, at any position."""
    return "--debug" in sys.argv[1:]


@contextmanager
def failing_with(status: int) -> Iterator[None]:
    """Print an error message (with --debug also the traceback) and end the command with `status` if the `with` block
    fails.

    Commands use this if their status 1 is a result, such as a regression.
    """
    try:
        yield
    except (typer.Exit, typer.BadParameter, BrokenPipeError):  # `run_command_line` handles a closed pipe
        raise
    except Exception as error:
        if debugging():
            traceback.print_exc()
        complain(sentence(error))
        raise typer.Exit(status) from error


@contextmanager
def hold_stderr() -> Iterator[None]:
    """Buffer the stderr output of libraries during the block, and discard it if the block raises an EdgecoreError.

    The error message is then the only output. Log messages up to the level WARNING are always dropped. Warnings of
    edgecore are printed as sentences, without a line of code. With --debug nothing is buffered or discarded.
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


_OWN_WARNINGS = (FallbackWarning, PrecisionWarning, QuantizationWarning)


def _show_warning(show: Callable[..., None], message: Warning | str, category: type[Warning], *position: Any) -> None:
    if issubclass(category, _OWN_WARNINGS):
        complain(f"warning: {message}")
    else:
        show(message, category, *position)


def print_json(value: Any) -> None:
    """Print `value` as JSON on stdout."""
    print(json.dumps(value, indent=2))


def read_any(path: Path) -> PteFile | PtdFile | BpteFile:
    """Map and parse a file without the runtime. Its identifier (bytes 4 to 8) tells which kind of file it is.

    Raises:
        FormatError: The kind of the file is unknown, or the file is damaged.
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
    """Return True if the file is a `.bpte` file."""
    from edgecore.format import BPTE_IDENTIFIER

    with path.open("rb") as file:
        return file.read(8)[4:] == BPTE_IDENTIFIER


def read_file(path: Path) -> PteFile:
    """Parse the program of a `.pte` or `.bpte` file, without the runtime.

    Raises:
        FormatError: The file is of another kind, or it is damaged.
    """
    from edgecore.errors import FormatError
    from edgecore.format import BpteFile, PtdFile, read_pte

    content = read_any(path)
    if isinstance(content, PtdFile):
        raise FormatError(f"{path}: a .pte or .bpte file is needed, but this file only holds weights")
    if isinstance(content, BpteFile):
        try:
            return read_pte(content.program)
        except FormatError as error:
            raise FormatError(f"{path}, its program: {error}") from error
    return content


def choose_method(names: list[str], requested: str | None, path: Path) -> str:
    """Return the method to run: the requested method, else `forward`, else the only method.

    Args:
        names: Methods of the file.
        requested: Value of --method.
        path: Path of the file, for error messages.
    """
    if requested is not None:
        if requested not in names:
            raise EdgecoreError(f"{path} has no method {requested!r}; it has {', '.join(names)}")
        return requested
    if "forward" in names:
        return "forward"
    if len(names) == 1:
        return names[0]
    raise EdgecoreError(f"{path} has the methods {', '.join(names)}; choose one with --method")


def check_folders(*outputs: Path | None) -> None:
    """Raise `CompileError` if the folder of an output file does not exist. None is an output that was not requested."""
    for path in outputs:
        if path and not path.parent.is_dir():
            raise CompileError(f"cannot write {path}: the folder {path.parent} does not exist")


def parse_backend(text: str) -> tuple[str, dict[str, Any]]:
    """Parse `qnn:soc=SM8650,required=true` into the name of a backend and its options.

    A value that is valid JSON is parsed (`true`, `8`); any other value is a string.
    """
    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not name or not key or not equals:
            raise typer.BadParameter(f"{text!r} is not NAME[:key=value,...]", param_hint="--backend")
        options[key] = parse_value(value)
    return name, options


def parse_load_options(texts: Sequence[str] | None) -> dict[str, dict[str, Any]]:
    """Parse the values of --backend into the argument `options` of `edgecore.load`: backend -> option -> value."""
    options: dict[str, dict[str, Any]] = {}
    for text in texts or ():
        name, values = parse_backend(text)
        if not values:  # skip a backend name without options: the file itself says which backends it needs
            raise typer.BadParameter(f"{text!r} is not NAME:key=value,...", param_hint="--backend")
        options.setdefault(name, {}).update(values)
    return options


def parse_value(text: str) -> Any:
    """Parse a value of an option: JSON (`true`, `8`, `[1, 2]`), or else the string itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
