"""Devices that run commands: over ssh, over adb, and this machine. A file that is already there is not copied again."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgecore.errors import EdgecoreError
from edgecore.processes.command import Ended, exit_text, run_command

Progress = Callable[[str], None]
_PART = 1 << 20
_NO_PROGRAM = re.compile("Exec format error|not executable")
_ADB_FAILED = re.compile(
    r"^(adb|error): .*(no devices|device '.*' not found|device (offline|unauthorized|still)|more than one device|daemon"
    r"|cannot connect|closed)",
    re.MULTILINE,
)


class Device(ABC):
    """A machine that runs POSIX shell commands, and keeps pushed files in a folder.

    Attributes:
        name: The device as users write it, such as "ssh:pi@host".
        folder: The folder for pushed files, an absolute path on the device.
        machine: Its processor, as `uname -m` prints it: "aarch64".
    """

    def __init__(self, name: str, progress: Progress | None = None) -> None:
        self.name = name
        self.folder = ""
        self.machine = ""
        self._progress: Progress = progress or (lambda text: None)

    def connect(self, folder: str) -> None:
        """Connect to the device, and create the folder.

        Args:
            folder: Absolute path on the device, in which `$HOME` stands for the user's home there.

        Raises:
            EdgecoreError: The device cannot be reached, or the folder cannot be written.
        """
        self._progress(f"connecting to {self.name}")
        # Put $HOME in double quotes, in which the shell expands it; single quotes would keep the text.
        place = shlex.quote(folder).replace("$HOME", "'\"$HOME\"'")
        done = self._shell(f"mkdir -p {place} && cd {place} && pwd && uname -m", 30)
        lines = done.out.splitlines()[-2:]  # skip lines that the user's shell prints first, such as a greeting
        if done.status or len(lines) < 2:
            raise self._failure(f"cannot create the folder {folder}", done)
        self.folder, self.machine = lines

    def run(
        self, command: Sequence[str], timeout: float = 600, *, environment: Mapping[str, str] | None = None
    ) -> Ended:
        """Run a command, and return its outcome, whatever its exit status is.

        Args:
            command: The words of the command; the first is the path of a program on the device.
            timeout: Time limit in seconds.
            environment: Additional environment variables.

        Raises:
            EdgecoreError: The connection was lost, the device cannot run such a program or killed it, or the time limit
                is exceeded.
        """
        variables = "".join(f"{name}={shlex.quote(value)} " for name, value in (environment or {}).items())
        done = self._shell(variables + shlex.join(command), timeout)
        program = command[0].rpartition("/")[2]
        if done.status in (126, 127) or (done.status and _NO_PROGRAM.search(done.err)):
            raise self._failure(f"cannot run {program} on its processor, {self.machine}", done)
        if done.status < 0:
            reason = exit_text(done.status) + (", maybe for lack of memory" if done.status == -9 else "")
            raise EdgecoreError(f"{self.name}: {program} was killed by {reason}")
        return done

    def push(self, path: Path, folder: str | None = None) -> str:
        """Copy a file to the device, unless a file with this name and content is already there. Make it executable.

        Args:
            path: Path of the file.
            folder: Folder on the device that has no other file of this name, such as a `temporary` one. By default a
                permanent folder that is named after the content.

        Returns:
            The path of the file on the device.

        Raises:
            EdgecoreError: The connection was lost, or the device has no space.
        """
        with path.open("rb") as file:
            digest = hashlib.sha256()
            while part := file.read(_PART):
                digest.update(part)
        size = path.stat().st_size
        name = re.sub(r"[^A-Za-z0-9._-]", "_", path.name).lstrip("-.") or "file"
        place = folder or f"{self.folder}/{digest.hexdigest()[:32]}"
        target = f"{place}/{name}"
        present = self._shell(f"mkdir -p {shlex.quote(place)} || exit 9; test -f {shlex.quote(target)}", 60)
        if present.status == 0:
            return target
        if present.status == 9:
            raise self._failure(f"cannot store {path.name} ({size:,} bytes) in {self.folder}", present)
        # Push to a temporary name and rename at the end, so that an interrupted push leaves no partial file as
        # `target`.
        part_name = f"{target}.{uuid.uuid4().hex[:8]}.part"
        sent = self._send(path, part_name, size)
        kept, final = shlex.quote(part_name), shlex.quote(target)
        moved = self._shell(
            f"test $(wc -c < {kept}) -eq {size} && chmod 755 {kept} && mv {kept} {final} || {{ rm -f {kept}; false; }}",
            60,
        )
        if moved.status:
            raise self._failure(
                f"cannot store {path.name} ({size:,} bytes) in {self.folder}", sent if sent.status else moved
            )
        return target

    @abstractmethod
    def pull(self, remote: str, path: Path) -> None:
        """Copy a file from the device to `path`.

        Raises:
            EdgecoreError: The connection was lost, or the device has no such file.
        """

    @contextmanager
    def temporary(self) -> Iterator[str]:
        """Create a folder on the device for the duration of the `with` block, and yield the path of the folder.

        If the block raises an error, a failure to remove the folder does not replace that error.
        """
        path = f"{self.folder}/run-{uuid.uuid4().hex[:12]}"
        done = self._shell(f"mkdir {shlex.quote(path)}", 60)
        if done.status:
            raise self._failure(f"cannot create the folder {path}", done)
        remove = f"rm -rf {shlex.quote(path)}"
        try:
            yield path
        except BaseException:
            with suppress(EdgecoreError):
                self._shell(remove, 60)
            raise
        self._shell(remove, 60)

    @abstractmethod
    def _shell(self, line: str, timeout: float) -> Ended:
        """Run a line in the device's shell."""

    @abstractmethod
    def _send(self, path: Path, remote: str, size: int) -> Ended:
        """Copy a local file to a path on the device."""

    def _failure(self, what: str, done: Ended) -> EdgecoreError:
        return EdgecoreError(f"{self.name}: {what}: {done.reason}")

    def _start(self, command: Sequence[str], timeout: float, **settings: Any) -> Ended:
        """Run a local command, such as ssh, that runs a command on the device; return the outcome on the device.

        `settings` are further arguments of `run_command`.
        """
        try:
            done = run_command(command, seconds=timeout, **settings)
        except OSError as error:
            raise EdgecoreError(f"{self.name}: {command[0]} cannot be started here: {error.strerror}") from error
        if done.stopped:
            raise EdgecoreError(f"{self.name}: no answer after {timeout:g} s")
        # The device's shell reports a command that signal n killed as status 128 + n.
        return replace(done, status=128 - done.status) if 128 < done.status < 193 else done


class Local(Device):
    """This machine as a device: commands run in a local shell, and files are copied within the file system."""

    def pull(self, remote: str, path: Path) -> None:
        try:
            shutil.copyfile(remote, path)
        except OSError as error:
            raise EdgecoreError(f"{self.name}: cannot copy {remote}: {error.strerror}") from error

    def _shell(self, line: str, timeout: float) -> Ended:
        return self._start(["sh", "-c", line], timeout)

    def _send(self, path: Path, remote: str, size: int) -> Ended:
        try:
            shutil.copyfile(path, remote)
        except OSError as error:
            return Ended(1, "", error.strerror or "")
        return Ended(0, "", "")


class Ssh(Device):
    """A machine with an ssh server. The user's ssh configuration applies; ssh never asks for a password.

    ssh gives up a machine that does not answer for a minute, for example because it was switched off.
    """

    def __init__(self, host: str, progress: Progress | None = None) -> None:
        super().__init__(f"ssh:{host}", progress)
        options = ("BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=15", "ServerAliveCountMax=4")
        self._command = ["ssh", *(word for option in options for word in ("-o", option)), "--", host]

    def pull(self, remote: str, path: Path) -> None:
        with path.open("wb") as file:
            done = self._checked(self._start(self._call(f"cat {shlex.quote(remote)}"), 600, stdout=file))
        if done.status:
            raise self._failure(f"cannot copy {remote}", done)

    def _shell(self, line: str, timeout: float) -> Ended:
        return self._checked(self._start(self._call(line), timeout))

    def _call(self, line: str) -> list[str]:
        """Return the ssh command that runs a line in `sh`, whatever the user's shell is.

        `exit $?` prevents `sh` from replacing itself by the command (`exec`). So `sh` survives and reports the signal
        that killed the command; otherwise ssh would return 255, as for its own errors.
        """
        return [*self._command, f"sh -c {shlex.quote(f'{line}; exit $?')}"]

    def _send(self, path: Path, remote: str, size: int) -> Ended:
        """Send the file through the standard input of `cat`, because a device may lack scp and sftp."""
        command = self._call(f"cat > {shlex.quote(remote)}")
        return self._checked(self._start(command, math.inf, stdin=self._parts(path, size)))

    def _parts(self, path: Path, size: int) -> Iterator[bytes]:
        sent = 0
        with path.open("rb") as file:
            while part := file.read(_PART):
                yield part
                sent += len(part)
                self._progress(f"pushing {path.name} to {self.name}: {100 * sent // max(size, 1)} %")

    def _checked(self, done: Ended) -> Ended:
        """Raise an error if ssh itself failed: it then exits with status 255."""
        if done.status == 255:
            raise self._failure("cannot be reached, or the connection was lost", done)
        return done


class Adb(Device):
    """An Android device; `serial` may be empty if there is only one."""

    def __init__(self, serial: str = "", progress: Progress | None = None) -> None:
        super().__init__(f"adb:{serial}" if serial else "adb", progress)
        self._command = ["adb", *(["-s", serial] if serial else [])]

    def pull(self, remote: str, path: Path) -> None:
        done = self._checked(self._start([*self._command, "pull", remote, str(path)], 600))
        if done.status:
            raise self._failure(f"cannot copy {remote}", done)

    def _shell(self, line: str, timeout: float) -> Ended:
        return self._checked(self._start([*self._command, "shell", line], timeout))

    def _send(self, path: Path, remote: str, size: int) -> Ended:
        self._progress(f"pushing {path.name} to {self.name}: {size:,} bytes")
        return self._checked(self._start([*self._command, "push", str(path), remote], 1800))

    def _checked(self, done: Ended) -> Ended:
        """Raise an error if adb itself failed: it then exits with status 1 and prints its own message."""
        if done.status == 1 and _ADB_FAILED.search(done.err):
            raise self._failure("cannot be reached, or the connection was lost", done)
        return done


def connect(device: str, progress: Progress | None = None, folder: str | None = None) -> Device:
    """Connect to a device.

    Args:
        device: "ssh:HOST" (HOST may be USER@HOST or a name of the ssh configuration), "adb", "adb:SERIAL" or "local".
        progress: Receives a line of text while files are pushed.
        folder: Folder on the device for pushed files; by default `~/.cache/edgecore/device`, for adb
            `/data/local/tmp/edgecore`.

    Raises:
        EdgecoreError: There is no such kind of device, or it cannot be reached.

    Example:
        >>> device = edgecore.devtools.connect("ssh:pi@raspberry")
        >>> print(device.run([device.push(Path("edgecore-run")), "--help"]).out)
    """
    kind, separator, address = device.partition(":")
    connection: Device
    if kind == "ssh" and address and not address.startswith("-"):
        connection, default = Ssh(address, progress), "$HOME/.cache/edgecore/device"
    elif kind == "adb" and bool(address) == bool(separator) and not address.startswith("-"):
        connection, default = Adb(address, progress), "/data/local/tmp/edgecore"
    elif device == "local":
        connection, default = Local(device, progress), "$HOME/.cache/edgecore/device"
    else:
        raise EdgecoreError(f"{device!r} is no device; give ssh:HOST, adb, adb:SERIAL or local")
    connection.connect(folder or default)
    return connection
