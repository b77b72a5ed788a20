"""Fresh virtual environments and the wheels of small backend packages, without pip and without a network."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import edgecore

ROOT = Path(__file__).parents[1]
INCLUDE = ROOT / "runtime_cpp" / "include"

BACKEND = """
import os
from edgecore.plugin import BackendInfo, hookimpl

def native_library():
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libacme.so")

@hookimpl
def edgecore_backends():
    return [BackendInfo(name="{name}", backend_id="{backend_id}", summary="version {version}",
                        compiler="{module}.compiler:Compiler", native_library=native_library)]
"""
COMPILER = """
class Compiler:
    def check(self):
        return []
"""
TABLE = """
#include "edgecore/backend.h"
static edgecore_backend table = {{sizeof(edgecore_backend), %s, %s}};
__attribute__((visibility("default"))) const edgecore_backend *edgecore_backend_v0(void) {
  table.backend_id.data = "AcmeBackend";
  table.backend_id.size = 11;
  table.distribution.data = "%s";
  table.distribution.size = %d;
  return &table;
}
"""


def sources(module: str = "edgecore_acme", version: str = "1.0", *, before: str = "", **names: str) -> dict[str, Any]:
    """The files of a package with one backend; `before` runs first when it is imported."""
    names = {"name": "acme", "backend_id": "AcmeBackend"} | names
    text = before + BACKEND.format(module=module, version=version, **names)
    return {f"{module}/__init__.py": text, f"{module}/compiler.py": COMPILER}


def wheel(
    folder: Path,
    distribution: str,
    files: dict[str, Any],
    version: str = "1.0",
    backend_id: str = "AcmeBackend",
    group: str = "edgecore.backends",
    attribute: str = "",
) -> Path:
    """The wheel of a package whose module is the first part of its first file; `backend_id` is the name of its entry point
    in `group`, `attribute` what follows the module there.
    """
    stem = f"{distribution.replace('-', '_')}-{version}"
    module = next(iter(files)).partition("/")[0]
    info = {
        "METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": f"[{group}]\n{backend_id} = {module}{attribute}\n",
        "RECORD": "",
    }
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in (files | {f"{stem}.dist-info/{name}": text for name, text in info.items()}).items():
            file.writestr(name, content)
    return path


class Environment:
    """A virtual environment that sees this edgecore and what it needs, but no backend of this environment's."""

    def __init__(self, folder: Path, *, outer: bool = True, **options: Any) -> None:
        """`outer`: it sees the other packages of this environment, after its own."""
        venv.EnvBuilder(with_pip=False, symlinks=True, **options).create(folder)
        self.folder = folder
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")
        # edgecore is linked, so that no distribution beside it is seen; the rest comes last on the path.
        package = Path(edgecore.__file__).parent
        (self.site / "edgecore").symlink_to(package)
        metadata = next(package.parent.glob("edgecore-*.dist-info"), None)
        if metadata:
            (self.site / metadata.name).symlink_to(metadata)
        others = [path for path in sys.path if "site-packages" in path and outer]
        (self.site / "zz_outer.pth").write_text("\n".join(others))
        self.variables: dict[str, str] = {}

    def link(self, *distributions: str) -> None:
        """Make these distributions of this environment part of it."""
        for found in map(importlib.metadata.distribution, distributions):
            for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__", "bin"}:
                (self.site / top).symlink_to(str(found.locate_file(top)))

    def install(self, path: Path, into: Path | None = None) -> Path:
        """Unpack a wheel, which is all that its installation is; the folder that it lies in then."""
        into = into or self.site
        with zipfile.ZipFile(path) as file:
            file.extractall(into)
        return into

    def run(self, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        dropped = ("PYTHONPATH", "PYTHONHOME", "EDGECORE_BACKENDS_ALLOW", "EDGECORE_BACKENDS_DENY")
        environment = {key: value for key, value in os.environ.items() if key not in dropped}
        environment |= {"COLUMNS": "300", **self.variables}
        command = [str(self.python), *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, env=environment, cwd=cwd or self.folder
        )

    def say(self, code: str, cwd: Path | None = None) -> Any:
        """Run code by `python -c`, and return the JSON that it prints."""
        done = self.run("-c", "import json\n" + code, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def find(self, backend_id: str = "AcmeBackend", cwd: Path | None = None) -> str:
        """Summary of the backend that loading a file would take, or the error."""
        code = f"""
from edgecore.errors import BackendError
from edgecore.plugin import registry
try:
    print(json.dumps(registry.find({backend_id!r}).summary))
except BackendError as error:
    print(json.dumps(f"{{type(error).__name__}}: {{error}}"))
"""
        return str(self.say(code, cwd))

    def doctor(self, *arguments: str) -> tuple[int, str]:
        done = self.run("-m", "edgecore", "doctor", *arguments)
        return done.returncode, done.stdout + done.stderr


def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang-16")
    assert found
    return found


def library(path: Path, source: str, *options: object) -> bytes:
    """A shared library as bytes."""
    path.with_suffix(".c").write_text(source)
    command = [compiler(), "-shared", "-fPIC", f"-I{INCLUDE}", "-o", path, path.with_suffix(".c"), *options]
    subprocess.run([*map(str, command)], check=True)
    return path.read_bytes()


def table(major: str = "EDGECORE_ABI_MAJOR", minor: str = "EDGECORE_ABI_MINOR", distribution: str = "") -> str:
    """C code of a library that declares itself for this version of the interface and of this package."""
    return TABLE % (major, minor, distribution, len(distribution))
