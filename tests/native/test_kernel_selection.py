"""The CMake function `edgecore_kernels`: its selections, and what it refuses when CMake runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from embedding import PACKAGE

import edgecore

PROJECT = """cmake_minimum_required(VERSION 3.20)
project(app C CXX)
find_package(edgecore CONFIG REQUIRED)
add_executable(app main.c)
edgecore_kernels(TARGET app {arguments})
"""


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    path = tmp_path / "relu.pte"
    edgecore.compile(torch.nn.ReLU().eval(), (torch.zeros(3),), backends=[]).save(path)
    return path


def configure(folder: Path, arguments: str) -> subprocess.CompletedProcess[str]:
    """Run CMake without a build; the table of kernels is then in `folder`/build."""
    (folder / "CMakeLists.txt").write_text(PROJECT.format(arguments=arguments))
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    command = ["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", f"-Dedgecore_DIR={PACKAGE / 'cmake'}"]
    command += [f"-DPython3_EXECUTABLE={sys.executable}"]
    environment = {key: value for key, value in os.environ.items() if key not in ("CC", "CXX")}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_files_names_and_yaml_make_a_union(relu: Path, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("operators:\n  aten::sub.out: [int8]\n")
    done = configure(tmp_path, "PTE relu.pte OPERATORS aten::add.out=float32+int8 YAML more.yaml CHECK relu.pte")
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "build" / "app_kernels.c").read_text()
    assert '{"aten::relu", 10}, {"out", 3}, 0x40, edgecore_kernel_relu_out}' in table
    assert '{"aten::add", 9}, {"out", 3}, 0x42, edgecore_kernel_add_out}' in table
    assert '{"aten::sub", 9}, {"out", 3}, 0x2, edgecore_kernel_sub_out}' in table
    assert table.count("int32_t edgecore_kernel_") == 3
    # The kernels have code for float32 and int8, and for int64, in which they compute int8; the build has this mask.
    assert "-DEDGECORE_DTYPES=0x52" in (tmp_path / "build" / "build.ninja").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("OPERATORS aten::add.out CHECK relu.pte", "needs what is not selected: aten::relu.out"),
        ("OPERATORS aten::relu.out=int8 CHECK relu.pte", "needs what is not selected: aten::relu.out for float32"),
        ("OPERATORS aten::addd.out", "no operator aten::addd.out"),
        ("CHECK relu.pte", "edgecore_kernels needs TARGET, and PTE, OPERATORS or YAML"),
    ],
)
def test_a_selection_that_does_not_suffice_stops_cmake(
    relu: Path, tmp_path: Path, arguments: str, message: str
) -> None:
    done = configure(tmp_path, arguments)
    assert done.returncode != 0
    assert message in " ".join(done.stderr.split())
