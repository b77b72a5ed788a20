"""Fixtures of a small backend as an installed package: a program for it, its library, and the package."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
METADATA = """Metadata-Version: 2.4
Name: edgecore-{name}
Version: 1.0
Summary: {summary}
License-Expression: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: edgecore
Description-Content-Type: text/markdown

"""


@pytest.fixture(scope="session")
def toy_program(tmp_path_factory):
    """A program that is one delegate of `ToyBackend`: float32 [2, 3] in and out."""
    torch = pytest.importorskip("torch")
    details = pytest.importorskip("executorch.exir.backend.backend_details")
    from executorch.exir import to_edge
    from executorch.exir.backend.backend_api import to_backend

    class ToyBackend(details.BackendDetails):
        @staticmethod
        def preprocess(edge_program, compile_specs):
            return details.PreprocessResult(processed_bytes=b"toy1")

    class PlusOne(torch.nn.Module):
        def forward(self, x):
            return x + 1.0

    edge = to_edge(torch.export.export(PlusOne(), (torch.ones(2, 3),)))
    path = tmp_path_factory.mktemp("toy") / "toy.pte"
    path.write_bytes(to_backend("ToyBackend", edge.exported_program(), []).buffer())
    return path


def compiled(library: Path, *sources: str | Path, flags: Sequence[str] = ()) -> Path:
    """A shared library of these sources, compiled as a plugin author would. A relative path is one under `runtime_cpp`."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("clang++-16")
    if compiler is None:
        pytest.skip("no C++ compiler")
    native = REPOSITORY / "runtime_cpp"
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", f"-I{native / 'include'}", *flags]
    subprocess.run([compiler, *flags, "-o", library, *[native / source for source in sources]], check=True)
    return library


def copy_package(folder: Path, sources: Path, name: str, backend_id: str, summary: str) -> Path:
    """Copy the package `edgecore_NAME` and the README of `sources` to `folder`, as an installed wheel; its new folder."""
    package = folder / f"edgecore_{name}"
    shutil.copytree(sources / package.name, package, ignore=shutil.ignore_patterns("__pycache__"))
    info = folder / f"{package.name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA.format(name=name, summary=summary) + (sources / "README.md").read_text())
    (info / "entry_points.txt").write_text(f"[edgecore.backends]\n{backend_id} = {package.name}\n")
    return package


@pytest.fixture(scope="session")
def toy_library(tmp_path_factory):
    """The test backend of the host layer."""
    return compiled(tmp_path_factory.mktemp("toy_library") / "libtoy.so", "host/tests/toy_backend.cpp")


def write_package(folder: Path, name: str, backend_id: str, answer: str, options: str) -> None:
    """A package that provides a backend, with the entry point that a wheel would have."""
    (folder / f"edgecore_{name}.py").write_text(
        "from edgecore.plugin import BackendInfo, hookimpl\n\n"
        "def native_library():\n"
        f"    return {answer}\n\n"
        "@hookimpl\n"
        "def edgecore_backends():\n"
        f"    return [BackendInfo(name='{name}', backend_id='{backend_id}', summary='', compiler='x:y',\n"
        f"                        native_library=native_library, load_options=lambda: {options})]\n"
    )
    info = folder / f"edgecore_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: edgecore-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[edgecore.backends]\n{backend_id} = edgecore_{name}\n")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """install(name, backend_id, answer): `edgecore-NAME`, for one test; its library is where `answer` evaluates to.

    `options` evaluates to its options for loading.
    """
    from edgecore.plugin import registry

    monkeypatch.syspath_prepend(tmp_path)
    installed = []

    def install(name: str, backend_id: str, answer: str, options: str = "{}") -> Path:
        write_package(tmp_path, name, backend_id, answer, options)
        importlib.invalidate_caches()
        installed.append((name, backend_id))
        return tmp_path

    yield install
    for name, backend_id in installed:
        sys.modules.pop(f"edgecore_{name}", None)
        registry._loaded.pop((backend_id, f"edgecore_{name}"), None)


@pytest.fixture
def install_toy(install):
    """install_toy(answer, options="{}"): `edgecore-toy` as if installed."""
    return lambda answer, options="{}": install("toy", "ToyBackend", answer, options)


@pytest.fixture
def toy_package(install_toy, toy_library):
    """`edgecore-toy` with its library; gives the folder to put on the path of a child process."""
    return install_toy(repr(str(toy_library)))
