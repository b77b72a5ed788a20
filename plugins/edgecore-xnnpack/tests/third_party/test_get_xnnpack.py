"""The script that gets XNNPACK: what it takes, what it refuses, and what it says. Nothing here needs a network."""

from __future__ import annotations

import fcntl
import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "native" / "third_party" / "get_xnnpack.py"


def pin_of(script: ModuleType, name: str, data: bytes) -> object:
    return script.Pin(hashlib.sha256(data).hexdigest(), len(data), "source", name.split("_", maxsplit=1)[0], name)


def test_the_pins_name_every_package(script: ModuleType) -> None:
    pins = script.read_pins()
    assert {pin.package for pin in pins} == {"xnnpack", "pthreadpool", "fxdiv"}
    assert all(len(pin.sha256) == 64 and pin.size > 0 and pin.kind == "source" for pin in pins)


def test_the_library_for_tests_needs_simde_beside(script: ModuleType) -> None:
    pins = script.read_pins(script.emulated.PINS)
    assert [pin.package for pin in pins if pin not in script.read_pins()] == ["libsimde-dev"]


def test_sources_that_the_emulation_was_not_written_for_are_refused(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("PROJECT(XNNPACK C CXX ASM)\n")
    with pytest.raises(ValueError, match="sets the flags of the avx256skx kernels 0 times, not once"):
        script.emulated.prepare(tmp_path, tmp_path)


def test_sources_in_the_given_folder_are_used(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "a_1.tar.xz").write_bytes(b"contents")
    monkeypatch.setenv("EDGECORE_THIRD_PARTY", str(tmp_path / "given"))
    script.fetch([pin_of(script, "a_1.tar.xz", b"contents")], tmp_path / "files")
    assert (tmp_path / "files" / "a_1.tar.xz").read_bytes() == b"contents"


@pytest.mark.parametrize("data", [b"contentz", b"content", b""])
def test_sources_with_other_contents_are_refused(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "a_1.tar.xz").write_bytes(data)
    monkeypatch.setenv("EDGECORE_THIRD_PARTY", str(tmp_path / "given"))
    with pytest.raises(script.BuildError, match="EDGECORE_THIRD_PARTY"):
        script.fetch([pin_of(script, "a_1.tar.xz", b"contents")], tmp_path / "files")
    assert "refused a_1.tar.xz" in capsys.readouterr().err
    assert list((tmp_path / "files").iterdir()) == []


def test_a_damaged_copy_in_the_cache_is_replaced(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, data in (("files", b"damaged!"), ("given", b"contents")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a_1.tar.xz").write_bytes(data)
    monkeypatch.setenv("EDGECORE_THIRD_PARTY", str(tmp_path / "given"))
    script.fetch([pin_of(script, "a_1.tar.xz", b"contents")], tmp_path / "files")
    assert (tmp_path / "files" / "a_1.tar.xz").read_bytes() == b"contents"


def test_a_file_name_that_apt_escaped_is_found(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a_0.0%7egit1.deb").write_bytes(b"contents")
    (tmp_path / "into").mkdir()
    script.take([pin_of(script, "a_0.0~git1.deb", b"contents")], tmp_path, tmp_path / "into", "here")
    assert (tmp_path / "into" / "a_0.0~git1.deb").is_file()


def test_a_debian_package_is_unpacked(script: ModuleType, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        member = tarfile.TarInfo("./usr/lib/libx.so.0")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"ELF"))
    deb = b"!<arch>\n"
    for name, data in (("debian-binary", b"2.0"), ("data.tar.xz", packed.getvalue())):
        deb += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    (tmp_path / "x.deb").write_bytes(deb)
    script.unpack_deb(tmp_path / "x.deb", tmp_path / "out")
    assert (tmp_path / "out/usr/lib/libx.so.0").read_bytes() == b"ELF"


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


def test_a_failed_build_leaves_no_result(tmp_path: Path, script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(files: Path, work: Path, stage: Path, *rest: object) -> None:
        stage.mkdir()
        (stage / "half").touch()
        raise script.BuildError("no")

    monkeypatch.setattr(script, "fetch", lambda pins, into: None)
    monkeypatch.setattr(script, "build", broken)
    compiler = script.Compiler("cc", "c++", "cc 1", all_kernels=True)
    with pytest.raises(script.BuildError):
        script.make(tmp_path / "xnnpack-key", tmp_path, compiler, for_tests=False)
    assert list(tmp_path.iterdir()) == []


def test_a_second_process_waits_for_the_build_of_the_first_and_uses_it(tmp_path: Path) -> None:
    start_script(tmp_path).communicate()  # leaves the lock file, whose name tells the key
    (lock,) = (tmp_path / "cache" / "third_party").glob("xnnpack-*.lock")
    result = lock.with_suffix("")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = start_script(tmp_path)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        result.mkdir()
    stdout, _ = process.communicate()
    assert process.returncode == 0 and Path(stdout.strip()) == result
