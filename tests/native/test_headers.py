"""The C headers compile for other machines than this one, and every struct has there the layout that is promised."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import interface_layout
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
# Compilers that are not clang, each with its own idea of layout, and the packages that bring them.
GCC = {"g++": "g++", "arm-none-eabi-g++": "gcc-arm-none-eabi", "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu"}
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


def check(target: str, language: str, source: str) -> subprocess.CompletedProcess[str]:
    if CLANG is None:
        pytest.skip("clang is not installed")
    # Free-standing: with nothing but the compiler's own headers, as in firmware.
    command = [CLANG, "-target", target, "-ffreestanding", "-nostdlibinc", "-fsyntax-only", f"-I{RUNTIME / 'include'}"]
    command += [f"-I{RUNTIME / 'tests'}", *WARNINGS, "-x", language, f"-std={LANGUAGES[language]}", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("target", TARGETS)
def test_structs_have_the_promised_layout_on_each_target(target: str, language: str) -> None:
    done = check(target, language, '#include "abi_layout.h"\n')
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("compiler", GCC)
def test_structs_have_the_promised_layout_when_compiled_by_gcc(compiler: str, language: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed (package {GCC[compiler]}); clang has checked its target")
    command = [compiler, "-ffreestanding", "-fsyntax-only", f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'tests'}"]
    command += [*WARNINGS, "-x", language, f"-std={LANGUAGES[language]}", "-"]
    done = subprocess.run(command, input='#include "abi_layout.h"\n', capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def structs(header: str) -> list[tuple[str, str]]:
    """Name and body of each struct that `header` defines, without comments."""
    text = re.sub(r"//[^\n]*", "", (RUNTIME / "include" / "edgecore" / header).read_text(encoding="utf-8"))
    bodies = re.findall(r"typedef struct (\w+) \{(.*?)\n\} \1;", text, re.DOTALL)
    assert len(bodies) == len(re.findall(r"typedef struct \w+ \{", text))
    return bodies


def members(header: str) -> set[str]:
    """`struct.member` of each member of each struct that `header` defines, and `struct` of each of these."""
    found = set()
    for name, body in structs(header):
        found.add(name)
        outer = re.sub(r"union \{.*?\}", "union", body, flags=re.DOTALL)  # its members lie where it lies
        for declaration in outer.split(";")[:-1]:
            called = re.search(r"\(EDGECORE_CALL \*(\w+)\)", declaration) or re.search(r"(\w+)$", declaration)
            assert called is not None, f"{name}: {declaration}"
            found.add(f"{name}.{called[1]}")
    return found


@pytest.mark.parametrize("header", ["abi.h", "kernel.h", "backend.h", "platform.h"])
def test_types_have_one_size_on_every_machine(header: str) -> None:
    for name, body in structs(header):
        found = re.search(r"\b(enum|bool|_Bool|int|long|short|size_t|ptrdiff_t|wchar_t)\b|\w\s*:\s*\d", body)
        assert found is None, f"{name}: {found}"


def test_each_member_of_a_struct_is_among_the_promised_ones() -> None:
    promised = set().union(*(members(header) for header in ("abi.h", "backend.h", "kernel.h", "platform.h")))
    assert {"edgecore_backend", "edgecore_backend.execute", "edgecore_value.as", "edgecore_host.fail"} <= promised
    layout = (RUNTIME / "tests" / "abi_layout.h").read_text(encoding="utf-8")
    asserted = set(re.findall(r"^SIZE\((\w+),", layout, re.MULTILINE))
    asserted |= {".".join(place) for place in re.findall(r"^AT\((\w+), (\w+),", layout, re.MULTILINE)}
    assert asserted == promised


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("header", ["abi.h", "kernel.h", "backend.h", "kernels.h", "platform.h"])
def test_each_header_stands_alone(header: str, language: str) -> None:
    done = check("arm-none-eabi", language, f'#include "edgecore/{header}"\n')
    assert done.returncode == 0, done.stderr


def test_the_macro_has_needs_no_extension_of_a_compiler() -> None:
    source = """#include "edgecore/backend.h"
int known(const edgecore_backend *table) { return EDGECORE_HAS(table, import_state); }
"""
    for target in ("arm-none-eabi", "x86_64-pc-windows-msvc"):
        done = check(target, "c", source)
        assert done.returncode == 0, done.stderr


def test_a_changed_layout_is_noticed() -> None:
    source = "#include <stdint.h>\n#define uint16_t uint32_t\n" + '#include "abi_layout.h"\n'
    assert "size of edgecore_header" in check("aarch64-linux-gnu", "c", source).stderr


@pytest.fixture
def gcc() -> str:
    compiler = shutil.which("gcc")
    if compiler is None or shutil.which("abidiff") is None:
        pytest.skip("gcc or abidiff is not installed (packages gcc and abigail-tools)")
    return compiler


def changed(compiler: str, folder: Path, include: Path = interface_layout.INCLUDE) -> str:
    xml = folder / "interface.abi.xml"
    xml.write_text(interface_layout.layout(compiler, folder, include), encoding="utf-8")
    return interface_layout.changes(xml)


def test_types_and_constants_change_only_with_the_version_of_the_interface(gcc: str, tmp_path: Path) -> None:
    changes = changed(gcc, tmp_path)
    assert not changes, (
        f"{changes}\nEach change needs a new version: raise EDGECORE_ABI_MINOR in edgecore/abi.h, add a row to "
        "docs/compatibility.md, then record the layout with `python tests/interface_layout.py`."
    )


@pytest.mark.parametrize(
    ("header", "old", "new", "message"),
    [
        (
            "backend.h",
            "  uint16_t min_host_minor;\n",
            "  uint16_t min_host_minor;\n  uint32_t extra;\n",
            "uint32_t extra",
        ),
        ("backend.h", "  uint16_t min_host_minor;\n", "  uint16_t lowest_host_minor;\n", "lowest_host_minor"),
        (
            "backend.h",
            "  uint32_t flags;\n  uint32_t features;\n",
            "  uint32_t features;\n  uint32_t flags;\n",
            "offset",
        ),
        ("abi.h", "  int32_t device_id;", "  uint32_t device_id;", "edgecore_dl_tensor::device_id"),
        ("backend.h", "int32_t code, edgecore_str text);\n", "int32_t code, void *text);\n", "edgecore_completion_fn"),
        ("backend.h", "EDGECORE_MEMORY_STAGING 2u", "EDGECORE_MEMORY_STAGING 3u", "EDGECORE_MEMORY_STAGING"),
    ],
)
def test_a_change_of_a_header_is_noticed(
    gcc: str, tmp_path: Path, header: str, old: str, new: str, message: str
) -> None:
    shutil.copytree(interface_layout.INCLUDE / "edgecore", tmp_path / "include" / "edgecore")
    path = tmp_path / "include" / "edgecore" / header
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert message in changed(gcc, tmp_path, tmp_path / "include")
