"""Symbols that the built libraries export, and symbols that the core needs: none that a small device may lack."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import re
import shutil
import subprocess
from pathlib import Path

import pytest

NM = shutil.which("nm") or shutil.which("llvm-nm-16")
# Arithmetic and memory functions of the compiler's own library, and what a position-independent object refers to.
FREESTANDING = {"memcpy", "memmove", "memset", "memcmp", "bcmp", "strlen", "strncmp", "_GLOBAL_OFFSET_TABLE_"}


def nm(path: Path, *options: str) -> list[list[str]]:
    """Lines of nm, split; the first column (an address) may be missing."""
    if NM is None:
        pytest.skip("nm is not installed")
    done = subprocess.run([NM, *options, str(path)], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines() if line and not line.endswith(":")]


def exported(path: Path) -> set[str]:
    return {words[-1].partition("@")[0] for words in nm(path, "-D", "--defined-only")}


def libraries() -> list[Path]:
    """Every native library of the installed packages called edgecore and edgecore_NAME."""
    found = []
    for package in pkgutil.iter_modules():
        if package.name != "edgecore" and not package.name.startswith("edgecore_"):
            continue
        spec = importlib.util.find_spec(package.name)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            found += sorted(path for path in Path(folder).rglob("*") if re.search(r"\.(so|pyd|dll|dylib)$", path.name))
    return found


def test_each_library_exports_one_symbol() -> None:
    found = {path.name: exported(path) for path in libraries()}
    simulator = found.pop(
        "libedgecore_tosa_simulator.so", set()
    )  # a library for backends, with an interface of its own
    assert all(name.startswith("edgecore_tosa_") for name in simulator)
    # A part of the package, which the Python module and edgecore-run are linked with; it has the functions of kernels.h.
    kernels = found.pop("libedgecore_kernels.so", set())
    assert all(name.startswith("edgecore_kernels_library") for name in kernels)
    assert any(name.startswith("_runtime.") for name in found)
    for name, symbols in found.items():
        assert len(symbols) == 1, f"{name} exports {sorted(symbols)}"
        assert symbols <= {"PyInit__runtime", "edgecore_backend_v0", "edgecore_kernels_v0"}, name


@pytest.fixture(scope="module")
def core() -> Path:
    kernels = os.environ.get("EDGECORE_KERNELS_BUILD")
    library = Path(kernels or "").parent / "libedgecore_core.a"
    if kernels is None or not library.exists():
        pytest.skip("EDGECORE_KERNELS_BUILD names no C++ build")
    return library


def test_the_core_needs_no_operating_system(core: Path) -> None:
    symbols = [words for words in nm(core) if len(words) >= 2]
    defined = {words[-1] for words in symbols if words[-2] not in "Uwv"}
    needed = {words[-1] for words in symbols if words[-2] in "Uwv"} - defined - FREESTANDING
    sanitizer = re.compile("__(asan|ubsan|tsan|sanitizer)_")
    assert not [name for name in sorted(needed) if not sanitizer.match(name)]


MESSAGES = """
#include "edgecore/log.h"
void say(edgecore::StringView name) {
  EDGECORE_LOG(EDGECORE_LOG_INFO, "information about ", name);
  EDGECORE_LOG(EDGECORE_LOG_ERROR, "trouble with ", name);
}
"""


@pytest.mark.parametrize(("level", "kept"), [("DEBUG", 2), ("ERROR", 1), ("OFF", 0)])
def test_messages_below_the_level_of_the_build_are_not_compiled(tmp_path: Path, level: str, kept: int) -> None:
    compiler = shutil.which("c++") or shutil.which("clang++-16")
    if compiler is None:
        pytest.skip("no C++ compiler is installed")
    include = Path(__file__).resolve().parents[2] / "runtime_cpp" / "include"
    (tmp_path / "say.cpp").write_text(MESSAGES)
    flags = ["-std=c++17", "-O0", "-c", f"-I{include}", f"-DEDGECORE_LOG_LEVEL=EDGECORE_LOG_{level}"]
    subprocess.run([compiler, *flags, tmp_path / "say.cpp", "-o", tmp_path / "say.o"], check=True)
    compiled = (tmp_path / "say.o").read_bytes()
    assert [text in compiled for text in (b"trouble with", b"information about")] == [kept >= 1, kept == 2]
    needed = {words[-1] for words in nm(tmp_path / "say.o") if words[-2] == "U"}
    assert ("edgecore_log" in needed) == (kept > 0)


def test_the_core_has_no_start_up_code(core: Path) -> None:
    if NM is None:
        pytest.skip("nm is not installed")
    assert not [words[-1] for words in nm(core) if words[-1].startswith("_GLOBAL__sub_I")]
