"""The script that gets Arm's libraries: what it takes, what it refuses, and what it says. Nothing here needs a network."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "native" / "third_party"
MEMBERS = ["include/model_runner.h", "include/flatbuffers/base.h", "include/gtest/gtest.h", "tosa/Op.py"]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The script as a module, on a machine for which one small wheel is pinned, and where pip finds nothing."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import get_reference_model as module

    (tmp_path / "local").mkdir()
    wheel = tmp_path / "local" / "tosa_tools.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in [*MEMBERS, *(f"lib64/lib{library}.a" for library in (*module.LIBRARIES, "flatbuffers"))]:
            archive.writestr(name, name)
    data = wheel.read_bytes()
    pins = tmp_path / "pins"
    pins.write_text(f"# a comment\n{hashlib.sha256(data).hexdigest()} {len(data)} riscv64 {wheel.name}\n")
    monkeypatch.setattr(module, "PINS", pins)
    monkeypatch.setattr(module, "download", lambda pin, folder: None)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    monkeypatch.setenv("EDGECORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EDGECORE_THIRD_PARTY", str(tmp_path / "local"))
    yield module
    del sys.modules["get_reference_model"], sys.modules["third_party"]


def test_a_local_wheel_is_unpacked_once(script, tmp_path, capsys):
    assert script.main() == 0
    first = capsys.readouterr()
    result = Path(first.out.strip())
    files = sorted(str(path.relative_to(result)) for path in result.rglob("*") if path.is_file())
    libraries = [f"lib/lib{name}.a" for name in sorted((*script.LIBRARIES, "flatbuffers"))]
    licenses = ["licenses/musl.txt", "licenses/tosa-reference-model.txt"]
    assert files == ["include/flatbuffers/base.h", "include/model_runner.h", *libraries, *licenses]
    (tmp_path / "local" / "tosa_tools.whl").unlink()
    assert script.main() == 0
    assert capsys.readouterr().out == first.out


def test_a_local_wheel_with_other_bytes_is_refused(script, tmp_path, capsys):
    wheel = tmp_path / "local" / "tosa_tools.whl"
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"#")
    assert script.main() == 1
    assert "error: tosa_tools.whl is not the pinned file; put the file of tosa_tools==" in capsys.readouterr().err
    assert not list((tmp_path / "cache" / "third_party" / "files").iterdir())


def test_a_failed_download_says_what_to_do(script, monkeypatch, capsys):
    monkeypatch.delenv("EDGECORE_THIRD_PARTY")
    assert script.main() == 1
    message = capsys.readouterr().err
    assert "tosa_tools.whl could not be downloaded; put the file" in message and "set EDGECORE_THIRD_PARTY" in message


def test_machines_without_a_wheel_are_named(script, monkeypatch, capsys):
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    assert script.main() == 1
    assert "exists for Linux on riscv64, but this is Linux on s390x" in capsys.readouterr().err


def test_pins_of_both_processors_name_one_release():
    rows = [line.split() for line in (FOLDER / "reference_model.pins").read_text().splitlines() if line[0] != "#"]
    assert {row[2] for row in rows} == {"x86_64", "aarch64"}
    assert {row[3].partition("-cp")[0] for row in rows} == {"tosa_tools-2026.8.0"}
