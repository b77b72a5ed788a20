"""A process that may eat memory, hang, die or print without end: it is stopped, and what it printed is cut."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from edgecore.plugin.exit_status import exit_text
from edgecore.plugin.installed import entry_points

_KEPT_BYTES = 16 << 10
"""Number of the last bytes of the output that are kept."""
_POLL_SECONDS = 0.2
"""A poll reads all of /proc, which takes milliseconds, also while a time is measured."""
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
# The child gets the sys.path of this process before it imports anything, so that both find the same packages.
_CHILD = "import sys; sys.path[:] = sys.argv[2:]; from edgecore.sweeps.cell import main; main(sys.argv[1])"


@dataclass(frozen=True)
class Ended:
    """The end of a process.

    Attributes:
        problem: Why it ended before its work was done; empty if it ended with status 0.
        by: The limit that it exceeded: "seconds", "memory" or "".
        printed: The last of what it printed.
    """

    problem: str
    by: str
    printed: str


def run_contained(
    request: str, seconds: float, memory_mb: int, stop: threading.Event | None = None, place: Path | None = None
) -> Ended:
    """Run `edgecore.sweeps.cell.main(request)` in a process of its own.

    The process and all that it has started are killed when the limits are exceeded, when `stop` is set, or at its end.
    It also dies with this process.

    Args:
        request: The argument of `main`.
        seconds: Time limit.
        memory_mb: Limit in MiB for the resident memory of the process and its children together.
        stop: Cancels the process when it is set.
        place: Its current folder; by default that of this process.
    """
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, request, *entry_points.searched()],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        cwd=place,
    )  # fmt: skip
    assert child.stdout is not None
    kept = bytearray()
    reader = threading.Thread(target=_drain, args=(child.stdout, kept), daemon=True)
    reader.start()
    end = time.monotonic() + seconds
    problem = by = ""
    try:
        while not problem:
            # Its output ends with it, as a rule, and waiting for that is exact where `Popen.wait` sleeps.
            reader.join(_POLL_SECONDS)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0 if reader.is_alive() else _POLL_SECONDS)
                break
            used = _resident(child.pid) >> 20
            if used > memory_mb:
                problem, by = f"it needs more memory than the limit of {memory_mb:,} MiB", "memory"
            elif time.monotonic() > end:
                problem, by = f"it does not end within the limit of {seconds:g} s", "seconds"
            elif stop is not None and stop.is_set():
                problem = "it was cancelled"
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        status = child.wait()
        reader.join(timeout=5)  # a process in a session of its own may still hold the pipe
        child.stdout.close()
    if not problem and status:
        problem = f"its process ended with {exit_text(status)}"
    return Ended(problem, by, bytes(kept).decode(errors="replace"))


def _drain(stream: IO[bytes], kept: bytearray) -> None:
    """Read all that a process prints, and keep the end of it."""
    with contextlib.suppress(ValueError):  # the stream was closed
        while part := os.read(stream.fileno(), 1 << 16):
            kept += part
            del kept[:-_KEPT_BYTES]


def _resident(session: int) -> int:
    """Return the resident bytes of the processes of a session; 0 where there is no /proc."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name of the program, in parentheses, may hold spaces; the session is the 4th field after it.
            rest = (folder / "stat").read_text().rpartition(")")[2].split()
        except (OSError, UnicodeDecodeError):
            continue
        if int(rest[3]) == session:
            total += int(rest[21]) * _PAGE
    return total
