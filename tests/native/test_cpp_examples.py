"""The C++ examples, built against the installed package: the API that docs/cpp.md describes, and kernel selection."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy
import pytest
import torch
from embedding import PACKAGE, ROOT, Digits, build, shared_folder

import edgecore


@pytest.fixture(scope="module")
def programs(digits: Digits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with the kernels of the digits net only; size before speed, to build quickly."""
    options = (f"-DPTE={digits.pte}", "-DCMAKE_BUILD_TYPE=MinSizeRel")
    return shared_folder(tmp_path_factory, "cpp", lambda folder: build(ROOT / "examples" / "cpp", folder, *options))


def run(program: Path, pte: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, pte], capture_output=True, text=True, timeout=60)


def compile_to(path: Path, module: torch.nn.Module, example: torch.Tensor) -> Path:
    edgecore.compile(module.eval(), (example,), backends=[]).save(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run", "fixed_memory"])
def test_example_gives_the_numbers_of_python(programs: Path, digits: Digits, name: str) -> None:
    done = run(programs / name, digits.pte)
    assert done.returncode == 0, done.stderr
    expected = numpy.asarray(edgecore.load(digits.pte).forward(numpy.ones((1, 1, 8, 8), numpy.float32)))
    numpy.testing.assert_allclose(
        numpy.array(done.stdout.split(), numpy.float32), expected.ravel(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.slow
def test_the_example_with_a_trace_writes_it(programs: Path, digits: Digits) -> None:
    run(programs / "run", digits.pte)
    assert digits.pte.with_name("digits.pte.etdp").read_bytes()[8:12] == b"ED00"


@pytest.mark.slow
def test_an_operator_that_was_not_selected_is_missing(programs: Path, tmp_path: Path) -> None:
    done = run(programs / "run", compile_to(tmp_path / "sin.pte", torch.nn.Sequential(Sine()), torch.zeros(3)))
    assert "aten::sin.out" in done.stderr and "no kernel" in done.stderr


@pytest.mark.slow
def test_a_dtype_that_was_not_selected_is_refused(programs: Path, tmp_path: Path) -> None:
    pte = compile_to(tmp_path / "double.pte", torch.nn.ReLU(), torch.zeros(3, dtype=torch.float64))
    done = run(programs / "run", pte)
    assert "selected without its dtypes: aten::relu.out for float64. Name its file" in done.stderr


class Sine(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)


@pytest.mark.slow
def test_kernels_that_were_not_selected_are_not_linked(programs: Path) -> None:
    symbols = subprocess.run(["nm", "-C", programs / "run"], capture_output=True, text=True, check=True).stdout
    assert "baseline::linear_out(" in symbols
    assert "baseline::sigmoid_out(" not in symbols and "baseline::mm_out(" not in symbols


def test_a_plugin_in_c_is_built_with_the_headers_only(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(plugin C)\nfind_package(edgecore CONFIG REQUIRED)\n"
        "add_library(plugin MODULE plugin.c)\ntarget_link_libraries(plugin PRIVATE edgecore::headers)\n"
    )
    (tmp_path / "plugin.c").write_text('#include "edgecore/backend.h"\nint abi(void) { return EDGECORE_ABI_MINOR; }\n')
    build(tmp_path, tmp_path / "build")


def test_the_package_ships_everything_that_a_build_needs() -> None:
    assert (PACKAGE / "native" / "third_party" / "flatbuffers" / "flatbuffers.h").is_file()
    assert not list(PACKAGE.glob("native/**/tests"))
