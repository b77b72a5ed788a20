"""The CMake module that calls the script which gets XNNPACK."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

MODULE = Path(__file__).parents[2] / "native" / "cmake" / "FindXNNPACK.cmake"


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_a_list_in_a_variable_of_the_platform_is_one_argument(tmp_path: Path) -> None:
    python = tmp_path / "python"  # writes its arguments, one a line
    python.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/arguments\nexit 1\n")
    python.chmod(0o755)
    variables = {
        "CMAKE_CROSSCOMPILING": "ON",
        "CMAKE_TOOLCHAIN_FILE": "x.cmake",
        "CMAKE_TRY_COMPILE_PLATFORM_VARIABLES": "FLAGS;UNSET;LEVEL",
        "FLAGS": "-a;-b c",
        "LEVEL": "21",
        "Python_EXECUTABLE": str(python),
    }
    command = ["cmake", *(f"-D{name}={value}" for name, value in variables.items()), "-P", str(MODULE)]
    subprocess.run(command, capture_output=True, check=False, cwd=tmp_path)
    _, *arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments == ["--toolchain", "x.cmake", "--define", "FLAGS=-a;-b c", "--define", "LEVEL=21"]
