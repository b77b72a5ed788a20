"""Show a sweep on the terminal: its plan, the running steps, the failures, and the time left."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from edgecore.devtools.printable import printable
from edgecore.progress import duration
from edgecore.sweeps.plan import SweepPlan
from edgecore.sweeps.results.result import GOOD
from edgecore.sweeps.step import Step, StepResult

_SHOWN = 8
"""Maximum number of running steps in the live list."""

_WIDTH = 40
"""Width of the bar in characters."""


class Display:
    """Prints the plan and failures on stderr. If stderr is a terminal, also shows the time left and running steps."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.running: dict[Step, float] = {}
        self.done = self.failed = self.left = 0
        self.since = time.monotonic()
        self.seconds = 0.0
        self.live = Live(console=self.console, get_renderable=self._lines, refresh_per_second=4, transient=True)

    def __enter__(self) -> Display:
        if sys.stderr.isatty():
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.live.stop()

    def planned(self, plan: SweepPlan, known: int, seconds: float, unknown: int) -> None:
        """Print the number of cells, how many have a stored result, and the estimated seconds of the others."""
        self.done = self.failed = 0
        self.since, self.seconds = time.monotonic(), seconds
        missing = len(plan.cells) - known
        estimate = f", about {duration(seconds)} by earlier results" if seconds else ""
        without = f" ({unknown} without an estimate)" if unknown and missing else ""
        names = [
            dict.fromkeys(getattr(cell.build, part) for cell in plan.cells) for part in ("model", "backend", "recipe")
        ]
        self._print(
            f"{len(plan.cells)} cells: {len(names[0])} models, {len(names[1])} backends, {len(names[2])} recipes"
        )
        self._print(f"{known} are known, {missing} are to be computed{estimate}{without}")

    def begun(self, step: Step) -> None:
        """Add a step that begins to the list of running steps."""
        self.running[step] = time.monotonic()

    def ended(self, step: Step, result: StepResult, left: int) -> None:
        """Count a step that has ended, and print a line if its status is not `ok`."""
        self.running.pop(step, None)
        self.done, self.left = self.done + 1, left
        if result.status != "ok":
            self.failed += result.status not in GOOD
            self._print(f"{step.name}: {result.status}: {result.reason}")

    def _print(self, text: str) -> None:
        self.console.print(Text(printable(text)), soft_wrap=True)

    def _time_left(self) -> str:
        """Estimate the time left from the steps that are done; before the first is done, from earlier results."""
        passed = time.monotonic() - self.since
        if self.done:
            return f", about {duration(passed / self.done * self.left)}"
        return f", about {duration(max(0.0, self.seconds - passed))}" if self.seconds else ""

    def _lines(self) -> Group:
        now = time.monotonic()
        bar = ProgressBar(max(1, self.done + self.left), self.done, width=_WIDTH)
        lines = [f"{self.done} done, {self.failed} not ok, {self.left} left{self._time_left()}"]
        for step, since in list(self.running.items())[:_SHOWN]:
            lines.append(f"  {step.kind:<5} {printable(step.name)}  {duration(now - since)}")
        return Group(bar, Text("\n".join(lines)))
