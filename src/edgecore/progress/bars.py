"""Show tasks as lines with bars on the terminal, by rich."""

from __future__ import annotations

import sys
import time

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from edgecore.progress import Task, duration

_BAR = 24
"""Width of a bar in characters."""


class Bars:
    """A listener that shows each running task as a line on stderr, from the first task on until the last one ends."""

    def __init__(self) -> None:
        # With file=sys.stderr the console keeps writing to the terminal if the work redirects sys.stderr.
        self._console = Console(file=sys.stderr, highlight=False)
        self._tasks: dict[Task, Spinner] = {}
        self._live: Live | None = None

    def __call__(self, task: Task) -> None:
        if task.ended:
            self._tasks.pop(task, None)
        else:
            self._tasks.setdefault(task, Spinner("dots"))
        if not self._tasks:
            self.hide()
        elif self._live is None:
            self._show()

    def hide(self) -> None:
        """Remove the lines."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show(self) -> None:
        self._live = Live(
            console=self._console,
            get_renderable=self._lines,
            refresh_per_second=8,
            transient=True,
            # print the work's output above the lines, unless it goes to a file
            redirect_stdout=sys.stdout.isatty(),
        )
        self._live.start()

    def _lines(self) -> Group:
        return Group(*(_line(task, spinner) for task, spinner in list(self._tasks.items())))


def _line(task: Task, spinner: Spinner) -> Table:
    """Return a line: spinner, title and present step; with a known number of steps also a bar and the time left."""
    line = Table.grid(padding=(0, 1))
    text = Text(f"{task.title}: {task.detail}" if task.detail else task.title, overflow="ellipsis", no_wrap=True)
    if not task.total:
        line.add_row(spinner, text, duration(time.monotonic() - task.since))
        return line
    left = task.seconds_left
    bar = ProgressBar(task.total, task.done, width=_BAR)
    count = Text(f"{task.done}/{task.total}", no_wrap=True)
    line.add_row(spinner, bar, count, Text("" if left is None else f"{duration(left)} left", no_wrap=True), text)
    return line
