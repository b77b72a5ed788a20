"""The C headers compile for other machines than this one, and every struct has there the layout that is promised."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

RUNTIME = Path(__file__).resolve().parents[2] / "runtime_cpp"
CLANG = shutil.which("clang-16") or shutil.which("clang")
TARGETS = (
    "x86_64-linux-gnu",
    "aarch64-linux-gnu",
    "arm-none-eabi",
    "i686-linux-gnu",
    "x86_64-pc-windows-msvc",
    "i686-pc-windows-msvc",
    "riscv32-unknown-elf",
)
LANGUAGES = {"c": "c11", "c++": "c++17"}


def check(target: str, language: str, source: str) -> subprocess.CompletedProcess[str]:
    if CLANG is None:
        pytest.skip("clang is not installed")
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    # Free-standing: with nothing but the compiler's own headers, as in firmware.
    command = [CLANG, "-target", target, "-ffreestanding", "-nostdlibinc", "-fsyntax-only", f"-I{RUNTIME / 'include'}"]
    command += [f"-I{RUNTIME / 'tests'}", *warnings, "-x", language, f"-std={LANGUAGES[language]}", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("target", TARGETS)
def test_layout(target: str, language: str) -> None:
    done = check(target, language, '#include "abi_layout.h"\n')
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("header", ["abi.h", "kernel.h", "backend.h", "kernels.h"])
def test_each_header_stands_alone(header: str, language: str) -> None:
    done = check("arm-none-eabi", language, f'#include "edgecore/{header}"\n')
    assert done.returncode == 0, done.stderr


def test_has_needs_no_extension_of_a_compiler() -> None:
    source = """#include "edgecore/backend.h"
int known(const edgecore_backend *table) { return EDGECORE_HAS(table, import_state); }
"""
    for target in ("arm-none-eabi", "x86_64-pc-windows-msvc"):
        done = check(target, "c", source)
        assert done.returncode == 0, done.stderr


def test_a_changed_layout_is_noticed() -> None:
    source = "#include <stdint.h>\n#define uint16_t uint32_t\n" + '#include "abi_layout.h"\n'
    assert "size of edgecore_header" in check("aarch64-linux-gnu", "c", source).stderr
