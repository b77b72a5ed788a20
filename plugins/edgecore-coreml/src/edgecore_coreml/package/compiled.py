"""Compile a model package with Xcode's Core ML compiler into the folder that Core ML loads (`.mlmodelc`).

This module imports neither torch nor coremltools.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from edgecore.errors import CompileError
from edgecore.plugin import Ended, exit_text, run_command
from edgecore_coreml.package.blob import COMPILED, METADATA, MODEL, read_blob, write_blob
from edgecore_coreml.package.files import write_files

ONLY_CORE_ML = "the model is compiled, so only Core ML runs it, on a Mac, an iPhone or an iPad"

_COMPILER = "coremlcompiler"


def check_compiler() -> None:
    """Check that this machine has Apple's compiler.

    Raises:
        CompileError: The compiler is missing.
    """
    try:
        is_there = _xcrun("--find", _COMPILER).status == 0
    except OSError:
        is_there = False
    if not is_there:
        raise CompileError(
            f'model_type="COMPILED_MODEL": compiled models need a Mac with Xcode, and xcrun finds no {_COMPILER} here; '
            'leave model_type="MODEL", and the device compiles the model'
        )


def compile_model(blob: bytes) -> bytes:
    """Return a copy of a blob in which the compiled model replaces the model package.

    Raises:
        CompileError: Apple's compiler fails; the error has the compiler's message.
    """
    files = read_blob(blob, {})
    with tempfile.TemporaryDirectory() as name:
        folder, target = Path(name) / "package", Path(name) / "compiled"
        write_files(files, folder)
        target.mkdir()
        xcrun = _xcrun(_COMPILER, "compile", str(folder / MODEL), str(target))
        if xcrun.status != 0:
            message = " ".join(f"{xcrun.err} {xcrun.out}".split())[:500] or f"it ended with {exit_text(xcrun.status)}"
            raise CompileError(f"Apple's {_COMPILER} cannot compile the model: {message}")
        paths = [path for path in (target / COMPILED).rglob("*") if path.is_file()]
        if not paths:
            raise CompileError(f"Apple's {_COMPILER} ended without an error, and wrote no {COMPILED}")
        compiled = {path.relative_to(target).as_posix(): path.read_bytes() for path in paths}
    return write_blob({METADATA: files[METADATA]} | compiled)


def _xcrun(*arguments: str) -> Ended:
    return run_command(["xcrun", *arguments])
