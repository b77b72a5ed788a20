"""Convert TOSA graphs to VGF files with the program in Arm's package `ai-ml-sdk-model-converter`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from edgecore.errors import CompileError
from edgecore.plugin import Ended, exit_text, installed_file, run_command

PACKAGE = "ai-ml-sdk-model-converter"
RELEASE = "0.11"
INSTALL = f'pip install "{PACKAGE}>={RELEASE},<0.12"'


def converter_version() -> str:
    """Return the version of the installed model converter.

    Raises:
        CompileError: The converter is not installed, or has an untested version.
    """
    try:
        installed = version(PACKAGE)
    except PackageNotFoundError:
        raise CompileError(f"Arm's model converter, which makes VGF files, is not installed: {INSTALL}") from None
    if ".".join(installed.split(".")[:2]) != RELEASE:
        raise CompileError(
            f"Arm's model converter {installed} is installed, and edgecore-vgf is tested with {RELEASE}: {INSTALL}"
        )
    return installed


def converter_program() -> Path:
    """Return the path of the model converter's program.

    Raises:
        CompileError: The converter is not installed, or has an untested version.
    """
    converter_version()
    name = "model-converter.exe" if sys.platform == "win32" else "model-converter"
    path = installed_file("model_converter", "binaries", "bin", name)
    if path and os.access(path, os.X_OK):
        return Path(path)
    raise CompileError(f"the package {PACKAGE} lacks its program {name}: {INSTALL} --force-reinstall")


def convert(tosa: bytes, flags: Sequence[str] = (), *, folder: Path | None = None) -> bytes:
    """Convert a TOSA graph to a VGF file.

    Args:
        tosa: The graph, as a flatbuffer of TOSA.
        flags: Flags of the converter's command line.
        folder: Existing folder for the graph, the VGF file and the converter's output; None to keep no files.

    Raises:
        CompileError: The converter is missing, has an untested version, or refuses the graph.
    """
    program = converter_program()
    if folder is not None:
        return _run(program, tosa, flags, folder)
    with tempfile.TemporaryDirectory() as name:
        return _run(program, tosa, flags, Path(name))


def _run(program: Path, tosa: bytes, flags: Sequence[str], folder: Path) -> bytes:
    graph, result = folder / "graph.tosa", folder / "graph.vgf"
    graph.write_bytes(tosa)
    result.unlink(missing_ok=True)
    command = [str(program), *flags, "--input", str(graph), "--output", str(result)]
    done = run_command(command)
    (folder / "converter.log").write_text(done.out + done.err, encoding="utf-8")
    if done.status or not result.is_file():
        raise CompileError(f"Arm's model converter cannot convert the TOSA graph: {_message(done, graph)}")
    return result.read_bytes()


def _message(done: Ended, graph: Path) -> str:
    """Join the errors in the converter's output to one message, and shorten the graph's path to the file name."""
    lines = [line.strip() for line in (done.err + done.out).replace(str(graph), graph.name).splitlines()]
    errors = [line for line in lines if "error" in line.lower() or line.startswith("Unknown argument")]
    return "; ".join(dict.fromkeys(errors)) or (lines[-1] if lines else f"it ended with {exit_text(done.status)}")
