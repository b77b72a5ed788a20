"""The script that gets XNNPACK: what it takes, what it refuses, and what it says. Nothing here needs a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "native" / "third_party" / "get_xnnpack.py"


def test_the_pins_name_every_package(script: ModuleType) -> None:
    pins = script.read_pins(script.PINS)
    assert {pin.package for pin in pins} == {"xnnpack", "pthreadpool", "fxdiv"}
    assert all(len(pin.sha256) == 64 and pin.size > 0 and pin.is_source for pin in pins)


def test_the_library_for_tests_needs_simde_beside(script: ModuleType) -> None:
    assert [pin.package for pin in script.read_pins(script.emulated.PINS)] == ["libsimde-dev"]


def test_sources_that_the_emulation_was_not_written_for_are_refused(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("PROJECT(XNNPACK C CXX ASM)\n")
    with pytest.raises(ValueError, match="sets the flags of the avx256skx kernels 0 times, not once"):
        script.emulated.prepare(tmp_path, tmp_path)


def start_script(tmp_path: Path) -> subprocess.Popen[str]:
    """Start the script with a cache of its own and a PATH that has a compiler's and cmake's names, but no apt-get."""
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("cmake", "clang-16", "clang++-16"):
        (tools / name).write_text("#!/bin/sh\necho 'clang version 16.0.6'\n")
        (tools / name).chmod(0o755)
    environment = {"PATH": str(tools), "HOME": str(tmp_path), "EDGECORE_CACHE": str(tmp_path / "cache")}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, str(SCRIPT)], env=environment, stdout=pipe, stderr=pipe, text=True)


def test_sources_that_cannot_be_had_are_one_sentence(tmp_path: Path) -> None:
    process = start_script(tmp_path)
    stdout, stderr = process.communicate()
    assert process.returncode == 1 and stdout == ""
    last = stderr.splitlines()[-1]
    assert last.startswith("error: ") and "xnnpack_0.0" in last and "set EDGECORE_THIRD_PARTY" in last
    assert "Traceback" not in stderr
