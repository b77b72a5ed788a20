"""Run commands, and show the output of a command that fails."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


def run(
    *command: str | Path, folder: Path | None = None, environment: Mapping[str, str] | None = None, text: str = ""
) -> str:
    """Run a command in ``folder`` with the standard input ``text``, and return its standard output and errors.

    Raises:
        SystemExit: The command fails; the message contains the output.
    """
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout}")
    return done.stdout
