"""Describe the exit status of a child process."""

from __future__ import annotations

import signal


def exit_text(status: int) -> str:
    """Describe a return code of `subprocess`: "signal 11 (SIGSEGV)" for -11, "status 3" for 3."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {-status} ({signal.Signals(-status).name})"
    except ValueError:  # a real-time signal has no name
        return f"signal {-status}"
