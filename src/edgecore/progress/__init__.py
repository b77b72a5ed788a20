"""The progress of long work. Code that takes long reports tasks, and a listener shows them. Imports no other package.

A task that nobody listens to costs nothing. `edgecore` on the command line shows tasks as bars if stderr is a terminal;
in Python, `shown` does the same.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(eq=False)
class Task:
    """A part of the work, which may have tasks inside.

    Attributes:
        title: Name of the work, such as "calibrating".
        total: Number of steps; None if it is unknown.
        done: Number of steps that are done.
        detail: The present step, such as the name of a pass; may be empty.
        ended: True once the task has ended, whether it succeeded or not.
        since: Time of the beginning of the first step, as `time.monotonic` returns it.
    """

    title: str
    total: int | None = None
    done: int = 0
    detail: str = ""
    ended: bool = False
    since: float = field(default_factory=time.monotonic)
    listener: Listener | None = field(default=None, repr=False)

    def describe(self, detail: str) -> None:
        """Name the present step."""
        self.detail = detail
        self.tell()

    def expect(self, total: int) -> None:
        """Set the number of steps, once it is known; the time until then does not count for the time left."""
        self.total, self.since = total, time.monotonic()
        self.tell()

    def advance(self) -> None:
        """Count one more step as done."""
        self.done += 1
        self.tell()

    def end(self) -> None:
        """End the task; `task` calls this."""
        self.ended = True
        self.tell()

    @property
    def seconds_left(self) -> float | None:
        """The seconds left if the remaining steps take as long as the steps so far; None while this is unknown."""
        if not self.total or not self.done:
            return None
        return (time.monotonic() - self.since) / self.done * max(0, self.total - self.done)

    def tell(self) -> None:
        """Report the present state to the listener, if any."""
        if self.listener is not None:
            self.listener(self)


Listener = Callable[[Task], None]
"""Receives a task when it begins, changes and ends, in the thread that works. Tasks begin and end in nested order."""

_listener: ContextVar[Listener | None] = ContextVar("edgecore_progress", default=None)


@contextmanager
def reported_to(listener: Listener) -> Iterator[None]:
    """Report the tasks of the block to a listener.

    Example:
        >>> with edgecore.progress.reported_to(lambda task: print(task.title, task.done, task.total)):
        ...     program = edgecore.compile(model, inputs)
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def shown() -> Iterator[None]:
    """Show the tasks of the block as bars on stderr, with the time left, if stderr is a terminal; needs `rich`.

    Example:
        >>> with edgecore.progress.shown():
        ...     program = edgecore.compile(model, inputs, quantize="int8", calibration=samples)
    """
    if not sys.stderr.isatty():
        yield
        return
    from edgecore.progress.bars import Bars

    bars = Bars()
    try:
        with reported_to(bars):
            yield
    finally:
        bars.hide()


@contextmanager
def task(title: str, total: int | None = None) -> Iterator[Task]:
    """Report a task that lasts as long as the block.

    Args:
        title: Name of the work, such as "calibrating".
        total: Number of steps; None if it is unknown.
    """
    begun = Task(title, total, listener=_listener.get())
    begun.tell()
    try:
        yield begun
    finally:
        begun.end()


def track(items: Iterable[Item], title: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items, and report a task with a step for each.

    Args:
        items: The items.
        title: Name of the work, such as "calibrating".
        total: Number of items; by default `len(items)`, if `items` has a length.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with task(title, total) as work:
        for item in items:
            yield item
            work.advance()


def duration(seconds: float) -> str:
    """Format a duration: "3 min 20 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
