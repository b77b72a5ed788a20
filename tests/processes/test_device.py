"""Devices: this machine, programs that stand for ssh and adb, and an ssh server on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecore.errors import EdgecoreError
from edgecore.processes.device import Device, connect

FAKE_SSH = """#!/bin/sh
# ssh -o ... -o ... -- HOST LINE: runs LINE here, with a home folder of its own
while [ "$1" != "--" ]; do shift; done
host="$2"; line="$3"
case "$host" in
  down) echo "ssh: connect to host down port 22: Connection refused" >&2; exit 255;;
  full) case "$line" in *"cat > "*) echo "cat: write error: No space left on device" >&2; exit 1;; esac;;
  broken) case "$line" in *"cat > "*) exit 0;; esac;;
esac
HOME="{folder}/home" exec sh -c "$line"
"""

FAKE_ADB = """#!/bin/sh
# adb [-s SERIAL] shell LINE | push FROM TO | pull FROM TO
if [ "$1" = "-s" ]; then
  [ "$2" = "gone" ] && {{ echo "error: device 'gone' not found" >&2; exit 1; }}
  shift 2
fi
command="$1"; shift
case "$command" in
  shell) exec sh -c "$*";;
  push) [ -f "{folder}/full" ] && {{ echo "adb: error: failed to copy: No space left on device" >&2; exit 1; }}
        exec cp "$1" "$2";;
  pull) exec cp "$1" "$2";;
esac
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with programs named ssh and adb, which comes first in PATH."""
    folder = tmp_path / "tools"
    (folder / "home").mkdir(parents=True)
    for name, text in (("ssh", FAKE_SSH), ("adb", FAKE_ADB)):
        (folder / name).write_text(text.format(folder=folder))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.fixture(params=["local", "ssh:pi@host", "adb", "adb:serial"])
def device(request: pytest.FixtureRequest, tools: Path, tmp_path: Path) -> Device:
    return connect(request.param, folder=f"{tmp_path}/on device")


def test_a_file_is_pushed_once_by_its_content(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "a file's name.sh"
    path.write_text("echo one\n")
    first = device.push(path)
    assert Path(first).read_text() == "echo one\n"
    before = Path(first).stat().st_mtime_ns
    assert device.push(path) == first
    assert Path(first).stat().st_mtime_ns == before
    path.write_text("echo two\n")
    second = device.push(path)
    assert second != first
    assert device.run(["sh", second]).out == "two\n"
    assert not list(Path(device.folder).rglob("*.part"))


def test_commands_end_as_on_the_device_and_files_come_back(device: Device, tmp_path: Path) -> None:
    done = device.run(["sh", "-c", 'echo "out  $1"; echo err >&2; exit 3', "sh", "a 'b' $HOME"])
    assert (done.status, done.out, done.err) == (3, "out  a 'b' $HOME\n", "err\n")
    with device.temporary() as folder:
        data = bytes(range(256)) * 5000
        (Path(folder) / "x").write_bytes(data)
        device.pull(f"{folder}/x", tmp_path / "y")
        assert (tmp_path / "y").read_bytes() == data
        with pytest.raises(EdgecoreError, match=f"^{device.name}: cannot copy"):
            device.pull(f"{folder}/missing", tmp_path / "z")
    assert not Path(folder).exists()


def test_a_command_that_is_killed_or_cannot_run_is_one_sentence(device: Device, tmp_path: Path) -> None:
    with pytest.raises(EdgecoreError, match=r"sh was killed by signal 9 \(SIGKILL\), maybe for lack of memory$"):
        device.run(["sh", "-c", "kill -9 $$"])
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(200))
    with pytest.raises(EdgecoreError, match=f"{device.name}: cannot run program on its processor, {device.machine}: "):
        device.run([device.push(program)])
    with pytest.raises(EdgecoreError, match="no answer after 0.2 s"):
        device.run(["sleep", "5"], timeout=0.2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ssh:down", "ssh:down: cannot be reached, or the connection was lost: ssh: connect to host down port 22"),
        ("adb:gone", "adb:gone: cannot be reached, or the connection was lost: error: device 'gone' not found"),
        ("ssh:", "'ssh:' is no device; give ssh:HOST, adb, adb:SERIAL or local"),
        ("ssh:-oProxyCommand=x", "is no device"),
        ("adb:", "is no device"),
        ("telnet:host", "is no device"),
    ],
)
def test_a_device_that_is_not_there_is_one_sentence(tools: Path, name: str, message: str) -> None:
    with pytest.raises(EdgecoreError, match=message):
        connect(name)


def test_the_first_error_of_a_device_that_goes_away_is_told(tools: Path, tmp_path: Path) -> None:
    device = connect("ssh:host", folder=str(tmp_path / "device"))

    def lose(why: str) -> None:
        (tools / "ssh").write_text(f"#!/bin/sh\necho {why} >&2; exit 255\n")

    with pytest.raises(EdgecoreError, match="the connection was lost: broken pipe"), device.temporary():
        lose("broken pipe")
        try:
            device.run(["edgecore-run"])
        finally:
            lose("no route to host")


def test_a_folder_may_have_any_name(tools: Path, tmp_path: Path) -> None:
    name = f"{tmp_path}/a \"b\" 'c' `d` $(e) \\f"
    for kind in ("local", "ssh:host", "adb"):
        assert connect(kind, folder=name).folder == name
    assert connect("ssh:host", folder="$HOME/x y").folder == f"{tools}/home/x y"


def test_a_device_without_space_is_one_sentence(tools: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.pte"
    path.write_bytes(bytes(1 << 21))
    (tools / "full").touch()
    for name in ("ssh:full", "adb"):
        device = connect(name, folder=str(tmp_path / "device"))
        with pytest.raises(EdgecoreError, match=rf"{name}: cannot store net\.pte \(2,097,152 bytes\) .*No space left"):
            device.push(path)
        assert not [one for one in Path(device.folder).rglob("*") if one.is_file()]


def test_a_push_that_loses_bytes_leaves_no_file(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"content")
    device = connect("ssh:broken", folder=str(tmp_path / "device"))
    with pytest.raises(EdgecoreError, match="cannot store x"):
        device.push(tmp_path / "x")
    assert not [one for one in Path(device.folder).rglob("*") if one.is_file()]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EdgecoreError, match="local: cannot create the folder"):
        connect("local", folder=str(tmp_path / "file" / "folder"))


def test_a_push_shows_its_progress(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(3 << 20))
    lines: list[str] = []
    connect("ssh:host", lines.append).push(tmp_path / "x")
    assert lines == ["connecting to ssh:host", *(f"pushing x to ssh:host: {part} %" for part in (33, 66, 100))]


SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real ssh server on this machine, and an ssh that finds it by the name `here`."""
    ssh = shutil.which("ssh")
    if SSHD is None or ssh is None or os.geteuid() != 0:
        pytest.skip("needs ssh, sshd and root")
    assert sys.platform == "linux"
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = (f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nStrictModes no\nUsePAM no\n"
                f"PidFile none\nAuthorizedKeysFile {tmp_path}/user.pub\nPermitRootLogin yes\n")  # fmt: skip
    (tmp_path / "sshd_config").write_text(settings)
    (tmp_path / "ssh_config").write_text(
        f"Host here\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {tmp_path}/user\n"
        f"  StrictHostKeyChecking no\n  UserKnownHostsFile {tmp_path}/known\n  LogLevel ERROR\n"
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(f'#!/bin/sh\nexec {ssh} -F {tmp_path}/ssh_config "$@"\n')
    (tmp_path / "bin" / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    Path("/run/sshd").mkdir(exist_ok=True)
    process = subprocess.Popen([SSHD, "-D", "-e", "-f", tmp_path / "sshd_config"], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield "ssh:here"
    finally:
        process.terminate()
        process.wait()


def test_a_real_ssh_server_is_a_device(server: str, tmp_path: Path) -> None:
    device = connect(server, folder=str(tmp_path / "device"))
    (tmp_path / "script.sh").write_text('echo "got $1"; exit 4\n')
    done = device.run(["sh", device.push(tmp_path / "script.sh"), "a  'b'"])
    assert (done.status, done.out) == (4, "got a  'b'\n")
    data = os.urandom(3 << 20)
    (tmp_path / "data").write_bytes(data)
    device.pull(device.push(tmp_path / "data"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data
    with pytest.raises(EdgecoreError, match="killed by signal 9"):
        device.run(["sh", "-c", "kill -9 $$"])
    with pytest.raises(EdgecoreError, match="ssh:nobody@here: cannot be reached"):
        connect("ssh:nobody@here")
