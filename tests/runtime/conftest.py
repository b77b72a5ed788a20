from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from toy_backend import compiled, install, install_toy, toy_library, toy_package, toy_program  # noqa: F401


def export(model, inputs, path, dynamic_shapes=None):
    """The model as a `.pte` of the reference toolchain."""
    torch = pytest.importorskip("torch")
    exir = pytest.importorskip("executorch.exir")
    exported = torch.export.export(model.eval(), inputs, dynamic_shapes=dynamic_shapes)
    path.write_bytes(exir.to_edge(exported).to_executorch().buffer)
    return path


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Small portable programs by name."""
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("programs")

    class Add(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    class Two(torch.nn.Module):
        def forward(self, x):
            return x + x, x * 3.0

    class Half(torch.nn.Module):
        def forward(self, x):
            return x + x

    matrix = torch.ones(2, 3)
    rows = torch.export.Dim("rows", max=8)
    image = torch.ones(1, 3, 4, 5).to(memory_format=torch.channels_last)
    return {
        "add": export(Add(), (matrix, matrix + 1), folder / "add.pte"),
        "two": export(Two(), (matrix,), folder / "two.pte"),
        "dynamic": export(Two(), (matrix,), folder / "dynamic.pte", {"x": {0: rows}}),
        "bfloat16": export(Half(), (matrix.bfloat16(),), folder / "bfloat16.pte"),
        "image": export(Add(), (image, image.clone()), folder / "image.pte"),
    }


@pytest.fixture(scope="session")
def null_library(tmp_path_factory):
    """The backend without hardware, which leaves work pending until its device is drained."""
    sources = ["tests/null_backend.cpp", "tests/null_device.cpp"]
    return compiled(tmp_path_factory.mktemp("null_library") / "libnull.so", *sources)


@pytest.fixture
def run_python():
    """Run a script in a new interpreter; gives the finished process."""

    def run(script: str, *arguments: object, options=(), path=(), environment=None):
        source = str(Path(sys.modules["edgecore"].__file__).parents[1])
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([source, *map(str, path)]), **(environment or {})}
        command = [sys.executable, *options, "-c", script, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)

    return run
