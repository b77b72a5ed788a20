"""Start, stop and write the trace of a loaded program. Imports neither torch nor numpy."""

from __future__ import annotations

import os
from typing import Any

from edgecore._runtime import Program as NativeProgram

LEVELS = ("calls", "operators", "threads")


def level_number(level: bool | str) -> int:
    """Convert a level to the number that the native module takes; -1 for no trace.

    Args:
        level: One of `LEVELS`; True stands for "operators".

    Raises:
        ValueError: There is no such level.
    """
    if isinstance(level, bool):
        return LEVELS.index("operators") if level else -1
    if level not in LEVELS:
        raise ValueError(f"the level of a trace is {', '.join(LEVELS[:-1])} or {LEVELS[-1]}; got {level!r}")
    return LEVELS.index(level)


class Trace:
    """The trace of a program; `Program.trace` returns it. Each member waits until no method of the program runs.

    Example:
        >>> program = edgecore.load("model.pte")
        >>> program.trace.start()
        >>> output = program.forward(x)
        >>> program.trace.stop()
        >>> program.trace.write("run.etdp")
    """

    def __init__(self, program: NativeProgram) -> None:
        self._program = program

    def start(self, level: str = "operators") -> None:
        """Record the runs from now on, in addition to those recorded so far.

        Operations inside delegates are recorded only if the file was loaded with `trace="operators"` (or True) or
        `trace="threads"`, because delegates are built with or without measurements when a file is loaded.

        Args:
            level: "calls": one event for each run. "operators": also each instruction, and each operation inside a
                delegate. "threads": also the time of each thread in each parallel loop.

        Raises:
            ValueError: There is no such level.
        """
        self._program.start_trace(level_number(level))

    def stop(self) -> None:
        """Stop recording runs, and keep the recorded events. Backends that were loaded with a trace keep measuring."""
        self._program.stop_trace()

    def clear(self) -> None:
        """Discard all recorded events."""
        self._program.clear_trace()

    def write(self, path: Any, values: Any = None) -> None:
        """Write the recorded events as an ETDump, which ExecuTorch's Inspector reads.

        Args:
            path: Path of the file, usually `NAME.etdp`.
            values: Path for the recorded values of `load(..., debug=...)`: the `debug_buffer_path` of the Inspector.

        Raises:
            ExecutionError: Nothing was ever traced, or a file cannot be written.
        """
        self._program.write_trace(os.fsencode(path), None if values is None else os.fsencode(values))

    @property
    def level(self) -> str | None:
        """The level of the running trace; None if no trace is running."""
        number = self._program.trace_info[0]
        return LEVELS[number] if number >= 0 else None

    @property
    def events(self) -> int:
        """Number of recorded events."""
        return self._program.trace_info[1]

    @property
    def dropped(self) -> int:
        """Number of older events that were dropped because the memory of `trace_limit` was full."""
        return self._program.trace_info[2]

    @property
    def bytes(self) -> int:
        """Memory that the events take."""
        return self._program.trace_info[3]

    def __repr__(self) -> str:
        level, events, dropped, _ = self._program.trace_info
        state = LEVELS[level] if level >= 0 else "stopped"
        return f"<edgecore.Trace {state}, {events:,} events{f', {dropped:,} dropped' if dropped else ''}>"
