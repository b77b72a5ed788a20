"""The `edgecore` command line: one module for each command. Exit status: 0 success, 1 failure, 2 wrong usage."""

from __future__ import annotations

import sys

_EXTRA = ("jinja2", "rich", "typer")


def main() -> None:
    """Run the command line of this process, and end the process with the exit status."""
    try:
        from edgecore.cli.app import run_command_line
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        print(
            f'edgecore: the command line needs the package {error.name}: pip install "edgecore[cli]"', file=sys.stderr
        )
        sys.exit(1)
    run_command_line()
