"""Run a command whose whole family of processes ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any


def run_stoppable(command: Sequence[str], seconds: float, **settings: Any) -> subprocess.CompletedProcess[Any]:
    """Run a command without input, and return its end and what it has printed.

    Also after Ctrl-C nothing that the command has started goes on: an emulator would keep its folder, for example.

    Args:
        command: The command and its arguments.
        seconds: It may take so long.
        settings: Further arguments of `subprocess.Popen`.

    Raises:
        OSError: The command cannot be started.
        subprocess.TimeoutExpired: It had not ended in time, and was stopped.
    """
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        **settings,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=seconds)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
