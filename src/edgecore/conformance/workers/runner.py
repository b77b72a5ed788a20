"""The command that runs programs on another processor or device, by starting `edgecore-run` there.

The command runs in a folder that has all files of the call, and it leaves the outputs there. So a command for a device
that cannot read this machine's files copies this folder to the device, runs edgecore-run with the same arguments, and
copies the folder back.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgecore.conformance.check import Failed
from edgecore.errors import EdgecoreError
from edgecore.processes.command import Ended, exit_text, last_line, run_command


class Died(Failed):
    """The command crashed, hung, or is not edgecore-run."""


@dataclass(frozen=True)
class Runner:
    """The command that starts an edgecore-run; the suite appends its arguments.

    Attributes:
        command: The words of its command line.
    """

    command: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.command)

    def run(
        self, folder: str, arguments: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None
    ) -> Ended:
        """Run the command with more arguments in a folder.

        Raises:
            Died: The command cannot be started, dies of a signal, or has not ended after `seconds`.
        """
        try:
            done = run_command(
                [*self.command, *arguments],
                seconds=seconds,
                folder=folder,
                environment={**os.environ, **(environment or {})},
            )
        except OSError as error:
            raise Died(f"{self} cannot be started: {error}") from error
        if done.stopped:
            raise Died(f"{self} has not ended after {seconds:g} s and was stopped")
        if done.status < 0:
            raise Died(f"{self} died of {end_text(done)}")
        return done


def check_start(command: Sequence[str], seconds: float) -> None:
    """Raise `EdgecoreError` if a command does not start an edgecore-run."""
    runner = Runner(tuple(command))
    with tempfile.TemporaryDirectory(prefix="edgecore-conformance-") as folder:
        try:
            done = runner.run(folder, ["--help"], seconds)
        except Died as problem:
            raise EdgecoreError(f"runner: {problem}; it runs in a temporary folder, so give absolute paths") from None
    if done.status != 0 or "edgecore-run" not in done.out:
        raise EdgecoreError(f"runner: {runner} is no edgecore-run; with --help it ends with {end_text(done)}")


def end_text(done: Ended) -> str:
    """Describe how a command ended, with the last line that it printed."""
    line = last_line(done.err) or last_line(done.out)
    return f"{exit_text(done.status)}{f': {line}' if line else ', without output'}"
