"""Files of the Debian archive, and the script that gets Vulkan's headers: what they take, refuse and say, without a network."""

from __future__ import annotations

import fcntl
import hashlib
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "runtime_cpp" / "vulkan" / "third_party" / "get_vulkan.py"
COPYRIGHT = "usr/share/doc/a/copyright"


@pytest.fixture
def debian(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module that fetches, on a machine without apt."""
    monkeypatch.syspath_prepend(str(ROOT / "cmake"))
    monkeypatch.delitem(sys.modules, "third_party", raising=False)
    import third_party as module

    monkeypatch.setattr(module, "apt_fetch", lambda pins, into: None)
    monkeypatch.delenv("EDGECORE_THIRD_PARTY", raising=False)
    yield module
    del sys.modules["third_party"]


@pytest.fixture
def script(debian: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script as a module, which uses `debian`."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import get_vulkan

    yield get_vulkan
    del sys.modules["get_vulkan"]


def pin_of(debian: ModuleType, name: str, data: bytes) -> object:
    return debian.Pin(hashlib.sha256(data).hexdigest(), len(data), name.split("_", maxsplit=1)[0], name)


def make_deb(path: Path, files: dict[str, bytes]) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    deb = b"!<arch>\n"
    for name, data in (("debian-binary", b"2.0"), ("data.tar.xz", packed.getvalue())):
        deb += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    path.write_bytes(deb)


@pytest.mark.parametrize(
    "pins",
    ["runtime_cpp/vulkan/third_party/vulkan.pins", "plugins/edgecore-vulkan/native/shaders/later_glslc.pins"],
)
def test_pins_are_complete(debian: ModuleType, pins: str) -> None:
    for pin in debian.read_pins(ROOT / pins):
        assert len(pin.sha256) == 64 and pin.size > 0 and pin.name.startswith(f"{pin.package}_")


def test_a_file_in_the_given_folder_is_used(
    debian: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_1.deb").write_bytes(b"contents")
    monkeypatch.setenv("EDGECORE_THIRD_PARTY", str(tmp_path))
    debian.fetch([pin_of(debian, "a_1.deb", b"contents")], tmp_path / "files")
    assert (tmp_path / "files" / "a_1.deb").read_bytes() == b"contents"


@pytest.mark.parametrize("data", [b"contentz", b"content", b""])
def test_a_damaged_file_is_refused(
    debian: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    (tmp_path / "a_1.deb").write_bytes(data)
    monkeypatch.setenv("EDGECORE_THIRD_PARTY", str(tmp_path))
    with pytest.raises(debian.FetchError, match=r"has a_1\.deb with the pinned SHA-256; put these files"):
        debian.fetch([pin_of(debian, "a_1.deb", b"contents")], tmp_path / "files")
    refused = f": refused a_1.deb from {tmp_path}: its size or SHA-256 differs from the pinned value\n"
    assert refused in capsys.readouterr().err
    assert list((tmp_path / "files").iterdir()) == []


def test_a_damaged_file_in_the_cache_is_replaced(
    debian: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, data in (("files", b"damaged!"), ("given", b"contents")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a_1.deb").write_bytes(data)
    monkeypatch.setenv("EDGECORE_THIRD_PARTY", str(tmp_path / "given"))
    debian.fetch([pin_of(debian, "a_1.deb", b"contents")], tmp_path / "files")
    assert (tmp_path / "files" / "a_1.deb").read_bytes() == b"contents"


def test_a_file_name_that_apt_escaped_is_found(debian: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a_0.0%7egit1.deb").write_bytes(b"contents")
    (tmp_path / "into").mkdir()
    debian.take([pin_of(debian, "a_0.0~git1.deb", b"contents")], tmp_path, tmp_path / "into", "here")
    assert (tmp_path / "into" / "a_0.0~git1.deb").is_file()


def test_headers_and_licences_are_taken_from_the_packages(
    debian: ModuleType, script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"usr/include/x/x.h": b"1", "usr/include/x/x.hpp": b"2", "usr/lib/x.a": b"3"}
    make_deb(tmp_path / "a_1.deb", {**headers, COPYRIGHT: b"free"})
    monkeypatch.setattr(script, "FILES", ("x/*.h",))
    pins = [pin_of(debian, "a_1.deb", (tmp_path / "a_1.deb").read_bytes())]
    with debian.new_folder(tmp_path / "result") as stage:
        script.unpack(tmp_path, pins, stage)
    files = {str(path.relative_to(tmp_path / "result")) for path in (tmp_path / "result").rglob("*") if path.is_file()}
    assert files == {"include/x/x.h", "licenses/a.txt"}


def test_a_package_without_an_expected_file_leaves_no_result(
    debian: ModuleType, script: ModuleType, tmp_path: Path
) -> None:
    make_deb(tmp_path / "a_1.deb", {COPYRIGHT: b"free"})
    pins = [pin_of(debian, "a_1.deb", (tmp_path / "a_1.deb").read_bytes())]
    with pytest.raises(debian.FetchError, match=r"hold no file vulkan/\*\.h"):
        with debian.new_folder(tmp_path / "result") as stage:
            script.unpack(tmp_path, pins, stage)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_1.deb", "result.lock"]


def start_script(tmp_path: Path) -> subprocess.Popen[str]:
    """Start the script with a cache of its own and no apt-get."""
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "EDGECORE_CACHE": str(tmp_path / "cache")}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, str(SCRIPT)], env=environment, stdout=pipe, stderr=pipe, text=True)


def test_files_that_cannot_be_had_are_one_sentence(tmp_path: Path) -> None:
    process = start_script(tmp_path)
    stdout, stderr = process.communicate()
    assert process.returncode == 1 and stdout == ""
    last = stderr.splitlines()[-1]
    assert last.startswith("error: ") and "libvulkan-dev_1.4.309" in last and "set EDGECORE_THIRD_PARTY" in last
    assert "Traceback" not in stderr


def test_a_second_process_waits_for_the_first_and_uses_its_result(tmp_path: Path) -> None:
    start_script(tmp_path).communicate()  # leaves the lock file, whose name tells the key
    (lock,) = (tmp_path / "cache" / "third_party").glob("vulkan-*.lock")
    result = lock.with_suffix("")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = start_script(tmp_path)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        result.mkdir()
    stdout, _ = process.communicate()
    assert process.returncode == 0 and Path(stdout.strip()) == result
