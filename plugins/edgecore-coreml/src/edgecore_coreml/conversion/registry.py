"""List the PyTorch operators for which coremltools has converters.

Importing coremltools takes seconds and prints to the terminal. So a child process lists the operators, and a cache file
keeps the list for each version of coremltools.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import tempfile
from pathlib import Path

from edgecore.errors import CompileError
from edgecore.plugin import exit_text, run_command

VERSION = "9.0"
INSTALL = 'pip install "coremltools>=9,<10"'

_UNDISTINGUISHED = {"default", "input", "int", "tensor", "tensor_mode", "scalar", "tensor_scalar"}
"""Names of overloads for which coremltools has no separate converter, but uses the converter of the operator."""
_ASK = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY as registry
open(sys.argv[2], "w").write(json.dumps(sorted(registry.name_to_func_mapping)))
"""


def coremltools_version() -> str | None:
    """Return the version of the installed coremltools without importing it; None if it is not installed."""
    try:
        return importlib.metadata.version("coremltools")
    except importlib.metadata.PackageNotFoundError:
        return None


def check_version() -> str:
    """Return the version of the installed coremltools without importing it.

    Raises:
        CompileError: coremltools is not installed, or has a version that this package was not tested with.
    """
    version = coremltools_version()
    if version is None:
        raise CompileError(f"coremltools is not installed: {INSTALL}")
    if version.partition(".")[0] != VERSION.partition(".")[0]:
        raise CompileError(f"coremltools {version} is installed, and edgecore-coreml needs {VERSION}: {INSTALL}")
    return version


def has_converter(converters: frozenset[str], operator: str) -> bool:
    """Return True if the names `converters` include a converter of an operator such as `aten.add.Tensor`."""
    namespace, _, name = operator.lower().partition(".")
    base, _, overload = name.partition(".")
    short = base if overload in _UNDISTINGUISHED else name
    return (short if namespace == "aten" else f"{namespace}.{short}") in converters


def converters() -> frozenset[str]:
    """Return the names of all operators that the installed coremltools converts, such as "add" for `aten.add.Tensor`.

    Raises:
        CompileError: coremltools is not installed, has an untested version, or cannot be imported.
    """
    version = check_version()
    path = _cache_folder() / f"coremltools-{version}.json"
    try:
        return frozenset(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        names = _ask()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump(sorted(names), file)
        Path(file.name).replace(path)
    except OSError:
        pass  # without a writable cache folder, the next process asks coremltools again
    return names


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgecore"


def _ask() -> frozenset[str]:
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "names.json"
        command = [sys.executable, "-c", _ASK, json.dumps(sys.path), str(answer)]
        done = run_command(command)
        if done.status or not answer.is_file():
            raise CompileError(f"coremltools cannot be imported: {done.err.strip()[-500:] or exit_text(done.status)}")
        return frozenset(json.loads(answer.read_text(encoding="utf-8")))
