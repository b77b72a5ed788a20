"""The command that runs programs on another processor or device: it starts an edgecore-run there.

The command runs in a folder that has all files of the call, and it leaves the outputs there. So a command for a device
without a common file system copies this folder to the device, runs edgecore-run with the same arguments, and copies
the folder back.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgecore.conformance.check import Failed
from edgecore.errors import EdgecoreError
from edgecore.plugin.exit_status import exit_text
from edgecore.plugin.processes import run_stoppable


class Died(Failed):
    """The command did not end as edgecore-run does: it died, hangs, or is something else."""


@dataclass(frozen=True)
class Runner:
    """The command that starts an edgecore-run; the suite appends its arguments.

    Attributes:
        command: Its words.
    """

    command: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.command)

    def run(
        self, folder: str, arguments: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command with more arguments in a folder.

        Raises:
            Died: The command cannot be started, dies of a signal, or has not ended after `seconds`.
        """
        try:
            done: subprocess.CompletedProcess[str] = run_stoppable(
                [*self.command, *arguments], seconds, cwd=folder, env={**os.environ, **(environment or {})}, text=True,
                errors="replace",
            )  # fmt: skip
        except OSError as error:
            raise Died(f"{self} cannot be started: {error}") from error
        except subprocess.TimeoutExpired:
            raise Died(f"{self} has not ended after {seconds:g} s and was stopped") from None
        if done.returncode < 0:
            raise Died(f"{self} died of {exit_text(done.returncode)}{last_line(done.stderr or done.stdout)}")
        return done


def check_start(command: Sequence[str], seconds: float) -> None:
    """Raise `EdgecoreError` if a command starts no edgecore-run that the suite can use."""
    runner = Runner(tuple(command))
    with tempfile.TemporaryDirectory(prefix="edgecore-conformance-") as folder:
        try:
            done = runner.run(folder, ["--help"], seconds)
        except Died as problem:
            raise EdgecoreError(f"runner: {problem}; it runs in a temporary folder, so give absolute paths") from None
    if done.returncode != 0 or "edgecore-run" not in done.stdout:
        end = exit_text(done.returncode) + last_line(done.stderr or done.stdout)
        raise EdgecoreError(f"runner: {runner} is no edgecore-run; with --help it ends with {end}")


def last_line(text: str) -> str:
    """Return the last line that a process has printed, for the end of an error message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1][:300]}" if lines else ", without output"
