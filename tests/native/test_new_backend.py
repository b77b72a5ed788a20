"""What `edgecore new-backend` writes: built in an empty folder against the installed wheel alone, installed, and used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest
from embedding import PACKAGE, ROOT, shared_folder

from edgecore.cli.new_backend import render

EXAMPLE = ROOT / "examples" / "hello-backend"
MODEL = """
import torch, edgecore
class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.relu(a * b + b) - a
def test_a_model_gives_what_eager_gives(tmp_path):
    model, inputs = Model().eval(), (torch.randn(3, 4), torch.randn(4))
    program = edgecore.compile(model, inputs, backends=["acme"])
    assert "operators delegated: 3 of 4" in str(program.report())
    assert "AcmeBackend: not among the backend's operators" in str(program.report())
    program.save(tmp_path / "model.pte")
    result = edgecore.load(tmp_path / "model.pte").forward(*inputs)
    torch.testing.assert_close(torch.as_tensor(result), model(*inputs))
"""
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
#include <initializer_list>
#include "edgecore/backend.h"
extern "C" EDGECORE_BACKEND(first);
extern "C" EDGECORE_BACKEND(second);
int main() {
  for (const edgecore_backend *table : {edgecore_backend_v0_first(), edgecore_backend_v0_second()}) {
    std::printf("%.*s ", static_cast<int>(table->backend_id.size), table->backend_id.data);
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
target_compile_definitions(two PRIVATE EDGECORE_STATIC)
target_link_libraries(two PRIVATE edgecore_first edgecore_second edgecore::headers)
"""


def run(*command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    # No path into the repository, and the compiler of a user instead of that of `make`.
    environment = {key: value for key, value in os.environ.items() if key not in ("CC", "CXX", "PYTHONPATH")}
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, cwd=cwd, env=environment)


def write(folder: Path, name: str) -> None:
    done = run(sys.executable, "-m", "edgecore.cli", "new-backend", name, "--into", folder)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `edgecore-acme`; beside it `venv`, where its wheel is installed over the packages of this one."""
    if not (PACKAGE / "native" / "include").is_dir():
        pytest.skip("edgecore runs from its source tree: run make install")
    return shared_folder(tmp_path_factory, "new-backend", make_environment) / "edgecore-acme"


def make_environment(folder: Path) -> None:
    write(folder, "acme")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    # Where the build tools are installed they are used; otherwise pip fetches them, as it does for a user.
    tools = ["--no-build-isolation"] if find_spec("scikit_build_core") else ["--find-links", ROOT / "dist"]
    wheel = run(*pip, "wheel", "--no-deps", *tools, "-w", folder, folder / "edgecore-acme")
    assert wheel.returncode == 0, wheel.stdout[-3000:] + wheel.stderr
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    installed = run(*pip, "--python", python, "install", "--no-deps", "--no-index", *folder.glob("*.whl"))
    assert installed.returncode == 0, installed.stderr
    (packages,) = folder.glob("venv/lib/python*/site-packages")
    (packages / "outer.pth").write_text("\n".join(path for path in sys.path if "site-packages" in path))


def test_the_example_is_what_it_writes() -> None:
    """After a change of the templates: `edgecore new-backend hello --into /tmp` and copy /tmp/edgecore-hello here."""
    found = {}
    for path in EXAMPLE.rglob("*"):
        name = path.relative_to(EXAMPLE).as_posix()
        if path.is_file() and not {"__pycache__", "build", ".pytest_cache"} & set(path.parts):
            found[name] = path.read_text(encoding="utf-8")
    assert found == render("hello")


def test_one_wheel_serves_every_python(acme: Path) -> None:
    (wheel,) = acme.parent.glob("*.whl")
    assert wheel.name.startswith("edgecore_acme-0.1.0-py3-none-")


def test_a_model_and_its_own_tests(acme: Path, tmp_path: Path) -> None:
    model = tmp_path / "test_model.py"
    model.write_text(MODEL)
    done = run(
        *(acme.parent / "venv" / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("--ignore=tests/test_conformance.py", "--import-mode=importlib", "tests", model),
        cwd=acme,
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_three_backends_take_turns(acme: Path, tmp_path: Path) -> None:
    """In order of priority: one takes an operator, OpenVINO another, XNNPACK the rest; the report shows who took what."""
    pytest.importorskip("edgecore_openvino")
    pytest.importorskip("edgecore_xnnpack")
    done = run(acme.parent / "venv" / "bin" / "python", "-c", THREE, tmp_path / "model.pte", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    for backend_id in ("AcmeBackend", "OpenvinoBackend", "XnnpackBackend"):
        assert f" x {backend_id}" in done.stdout


def test_its_library_exports_one_symbol(acme: Path) -> None:
    (library,) = (acme.parent / "venv").rglob("libedgecore_acme.so")
    symbols = run("nm", "-D", "--defined-only", library).stdout.split()
    assert symbols[1:] == ["T", "edgecore_backend_v0"]


def test_two_of_them_link_into_one_program(tmp_path: Path) -> None:
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
