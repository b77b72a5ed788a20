"""The program edgecore-run in this package: runs a file in C++, without Python once it has started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_HERE = Path(__file__).parent
PROGRAM = _HERE / "bin" / "edgecore-run"
LIBRARY_FOLDER = _HERE / "lib"
"""The folder with the library of kernels, which edgecore-run finds by a path relative to its own file."""


def main() -> None:
    """Replace this process by the program edgecore-run; the command `edgecore-run` calls this function."""
    try:
        os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"edgecore-run: {PROGRAM} cannot be started: {error.strerror}. Install edgecore from a wheel.")
