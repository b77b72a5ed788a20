"""Our cpuinfo: its answers about this machine are those of the library of that name."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

NATIVE = Path(__file__).parents[2] / "native"
PINS = Path(__file__).with_name("cpuinfo.pins")
THIRD_PARTY = os.environ.get("EDGECORE_THIRD_PARTY", "")
CC = shutil.which(os.environ.get("CC", "clang-16")) or shutil.which("cc")


def answers(folder: Path, *arguments: str | Path) -> list[str]:
    program = Path(tempfile.mkdtemp(dir=folder)) / "answers"
    command = [str(CC), "-O1", NATIVE / "tests" / "cpuinfo_answers.c", *arguments, "-lpthread", "-o", program]
    subprocess.run(command, check=True)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.skipif(CC is None, reason="there is no C compiler")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the library of the pins is for x86-64")
def test_the_answers_are_those_of_the_library(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGECORE_THIRD_PARTY", THIRD_PARTY)
    pins = script.read_pins(PINS)
    try:
        script.fetch(pins, tmp_path / "files")
    except script.FetchError as error:
        pytest.skip(f"the library cannot be had: {error}")
    for pin in pins:
        script.unpack_deb(tmp_path / "files" / pin.name, tmp_path)
    library = next((tmp_path / "usr" / "lib").glob("*/libcpuinfo.so.0"))
    theirs = answers(tmp_path, f"-I{tmp_path / 'usr' / 'include'}", library, f"-Wl,-rpath,{library.parent}")
    ours = answers(tmp_path, f"-I{NATIVE / 'cpuinfo' / 'include'}", *(NATIVE / "cpuinfo").glob("*.c"))
    assert ours == theirs
    assert len(ours) > 20
