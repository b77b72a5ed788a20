"""Signals that end the command line: Ctrl-C, SIGTERM and SIGHUP raise an exception, so that clean-up code runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
"""Names of the signals; Windows lacks the last."""


class Interrupted(KeyboardInterrupt):
    """A signal has asked this process to end.

    Attributes:
        status: The exit status by which shells know the signal: 130 for Ctrl-C.
        word: What happened, for the user: "interrupted", or "terminated" for signals other than Ctrl-C.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number
        self.word = "interrupted" if number == signal.SIGINT else "terminated"


@dataclass
class _State:
    """The state of the main thread: the number of active `uninterrupted` blocks, and the signal that they delay."""

    blocks: int = 0
    delayed: int = 0


_state = _State()


def raise_at_signals() -> None:
    """Raise `Interrupted` in the main thread at each signal that would end this process. Call this in the main thread.

    A signal that the process ignores stays ignored, such as SIGHUP in a process that `nohup` started.
    """
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay signals until the end of the block, which is short: it removes files or kills processes.

    This has no effect without `raise_at_signals`, or outside of the main thread, which alone receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _state.blocks += 1
    try:
        yield
    finally:
        _state.blocks -= 1
        if _state.delayed and not _state.blocks:
            number, _state.delayed = _state.delayed, 0
            raise Interrupted(number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if not _state.blocks:
        raise Interrupted(number)
    _state.delayed = number
