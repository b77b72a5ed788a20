"""The identity of builds for other processors: toolchain files, those that they include, and compilers."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def toolchain(tmp_path: Path) -> Path:
    """A toolchain file that includes another one and chooses a compiler by a script."""
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    compiler(tmp_path, "1.0")
    (tmp_path / "wrapper.sh").write_text('exec "$@"\n')
    (tmp_path / "included.cmake").write_text("set(level -O1)\n")
    text = f'set(CMAKE_SYSTEM_NAME Linux)\ninclude("{tmp_path}/included.cmake")\n'
    for language in ("C", "CXX"):
        text += f"set(CMAKE_{language}_COMPILER /bin/sh {tmp_path}/wrapper.sh {tmp_path}/compiler -target x)\n"
    (tmp_path / "other.cmake").write_text(text)
    return tmp_path / "other.cmake"


def compiler(folder: Path, version: str) -> None:
    (folder / "compiler").write_text(f"#!/bin/sh\ncat {folder}/version\n")
    (folder / "compiler").chmod(0o755)
    (folder / "version").write_text(f"clang version {version}\nInstalledDir: {folder}\n")


def test_a_toolchain_is_the_same_until_a_part_changes(script: ModuleType, toolchain: Path, tmp_path: Path) -> None:
    before = script.cross.describe(toolchain)
    assert script.cross.describe(toolchain) == before
    changes = {
        "the file": lambda: toolchain.write_text(toolchain.read_text() + "set(flag 1)\n"),
        "a file that it includes": lambda: (tmp_path / "included.cmake").write_text("set(level -O2)\n"),
        "a script": lambda: (tmp_path / "wrapper.sh").write_text('exec "$@" \n'),
        "the compiler's version": lambda: compiler(tmp_path, "1.1"),
    }
    for name, change in changes.items():
        change()
        after = script.cross.describe(toolchain)
        assert after != before, name
        before = after


def test_folders_of_the_compiler_do_not_count(script: ModuleType, toolchain: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    compiler(moved, "1.0")
    (moved / "wrapper.sh").write_bytes((tmp_path / "wrapper.sh").read_bytes())
    words = ["/bin/sh", "wrapper.sh", "compiler"]
    here, there = (
        script.cross.describe_compiler([words[0], *(str(folder / word) for word in words[1:])], toolchain)
        for folder in (tmp_path, moved)
    )
    assert [text.replace(str(moved), str(tmp_path)) for text in there] == here and "1.0" in here[-1]


def test_the_variables_name_the_compiler_of_a_file_without_one(
    script: ModuleType, toolchain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchain.write_text("set(CMAKE_SYSTEM_NAME Linux)\n")
    monkeypatch.setenv("CC", f"{tmp_path}/compiler -c")
    monkeypatch.setenv("CXX", f"{tmp_path}/compiler -cxx")
    described = script.cross.describe(toolchain)
    assert "clang version 1.0" in described and {"-c", "-cxx"} <= set(described)


def test_the_key_covers_what_the_toolchain_includes_and_the_compiler(
    script: ModuleType,
    toolchain: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(script, "make", lambda stage, *rest: None)
    monkeypatch.setattr("sys.argv", ["get_xnnpack.py", "--toolchain", str(toolchain)])
    monkeypatch.setenv("EDGECORE_CACHE", str(tmp_path / "cache"))
    assert script.main() == script.main() == 0
    (tmp_path / "included.cmake").write_text("set(level -O2)\n")
    assert script.main() == 0
    compiler(tmp_path, "1.1")
    assert script.main() == 0
    built = [Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert built[0] == built[1] and len(set(built)) == 3 and built[0].startswith("xnnpack-other-")


def test_a_toolchain_that_cannot_be_used_is_one_sentence(
    script: ModuleType,
    toolchain: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EDGECORE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "compiler").unlink()
    (tmp_path / "broken.cmake").write_text("include(nothing.cmake)\n")
    for path, reason in ((toolchain, "does not tell its version"), (tmp_path / "broken.cmake", "CMake cannot use")):
        monkeypatch.setattr("sys.argv", ["get_xnnpack.py", "--toolchain", str(path)])
        assert script.main() == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert reason in line and str(path) in line


def test_variables_that_the_toolchain_file_reads_are_passed_on_and_count(script: ModuleType, toolchain: Path) -> None:
    text = toolchain.read_text()
    toolchain.write_text('if(NOT PROGRAM)\n  message(FATAL_ERROR "set PROGRAM")\nendif()\n' + text)
    with pytest.raises(script.cross.ToolchainError, match="set PROGRAM"):
        script.cross.describe(toolchain)
    one, moved, other = (
        script.cross.describe(toolchain, [f"PROGRAM={path}"]) for path in ("/a/zig", "/b/zig", "/b/cc")
    )
    assert one == moved != other
