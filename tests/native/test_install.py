"""A prefix of `cmake --install`: applications that are built with it by CMake and by pkg-config, and the presets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy
import pytest
from embedding import ROOT, Digits, shared_folder

import edgecore

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(application LANGUAGES CXX)
find_package(edgecore CONFIG REQUIRED)
add_executable(application application.cpp)
target_link_libraries(application PRIVATE edgecore::host)
"""


def run(*command: object, **more: str) -> str:
    # The compiler of a user instead of that of `make`.
    environment = {key: value for key, value in os.environ.items() if key not in ("CC", "CXX")} | more
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=1200, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def install(folder: Path) -> None:
    cache = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX") if shutil.which("ccache")]
    options = ["--preset", "linux", "-DEDGECORE_OPTIMIZE_SIZE=ON", f"-DCMAKE_INSTALL_PREFIX={folder / 'prefix'}"]
    run("cmake", "-S", ROOT, "-B", folder / "build", *options, *cache)
    run("cmake", "--build", folder / "build")
    run("cmake", "--install", folder / "build")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for program in ("ninja", "flatc"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return shared_folder(tmp_path_factory, "prefix", install) / "prefix"


def gives_the_numbers_of_python(application: Path, digits: Digits) -> None:
    expected = numpy.asarray(edgecore.load(digits.pte).forward(numpy.ones((1, 1, 8, 8), numpy.float32)))
    result = numpy.array(run(application, digits.pte).split(), numpy.float32)
    numpy.testing.assert_allclose(result, expected.ravel(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_an_application_finds_the_installed_libraries(prefix: Path, digits: Digits, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    shutil.copy(ROOT / "examples" / "cpp" / "run.cpp", tmp_path / "application.cpp")
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    gives_the_numbers_of_python(tmp_path / "build" / "application", digits)


@pytest.mark.slow
def test_an_application_is_linked_without_cmake(prefix: Path, digits: Digits, tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    flags = run("pkg-config", "--cflags", "--libs", "edgecore", PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig"))
    moved = tmp_path / "moved"  # the paths in the file are relative to it
    shutil.move(prefix, moved)
    try:
        flags = flags.replace(str(prefix), str(moved))
        source = ROOT / "examples" / "cpp" / "run.cpp"
        run("c++", "-std=c++17", source, *flags.split(), "-o", tmp_path / "application")
    finally:
        shutil.move(moved, prefix)
    gives_the_numbers_of_python(tmp_path / "application", digits)


@pytest.mark.slow
def test_a_selection_of_kernels_needs_the_sources(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(PROJECT + "edgecore_kernels(TARGET application PTE model.pte)\n")
    (tmp_path / "application.cpp").write_text("int main() {}\n")
    with pytest.raises(AssertionError, match="edgecore_kernels needs the sources"):
        run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")


@pytest.mark.slow
def test_the_installed_program_is_small_and_runs(prefix: Path, digits: Digits) -> None:
    program = prefix / "bin" / "edgecore-run"
    assert "output 0: float32 [1, 10]" in run(program, digits.pte)
    assert program.stat().st_size < 2_000_000  # all operators


def test_the_presets_name_files_that_exist() -> None:
    presets = json.loads((ROOT / "CMakePresets.json").read_text())
    names = [preset["name"] for preset in presets["configurePresets"] if not preset.get("hidden")]
    assert names == ["linux", "linux-arm64", "linux-armv7", "linux-arm64-musl", "android-arm64", "bare-metal"]
    for preset in presets["configurePresets"]:
        toolchain = preset.get("toolchainFile", "").replace("${sourceDir}", str(ROOT))
        assert not toolchain or toolchain.startswith("$env{ANDROID_NDK}/") or Path(toolchain).is_file(), preset["name"]
