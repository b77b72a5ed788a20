"""Pass messages of the runtime and its backends to the logger `edgecore` of Python's `logging`.

The native module imports this module at the first message, so that a program without messages does not import
`logging`.
"""

from __future__ import annotations

import logging
import os

logger = logging.getLogger("edgecore")

# Python's levels, and the names that EDGECORE_LOG takes; the index in both is the native level (edgecore/abi.h).
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
_NAMES = ("debug", "info", "warning", "error", "off")


class _Formatter(logging.Formatter):
    """Formats messages in the same way as edgecore-run."""

    def format(self, record: logging.LogRecord) -> str:
        return f"edgecore {record.levelname.lower()}: {record.getMessage()}"


def _configure() -> None:
    """Let the logger write to standard error at the level in EDGECORE_LOG, unless the application has configured it."""
    name = os.environ.get("EDGECORE_LOG")
    if name not in _NAMES:
        return
    if logger.level == logging.NOTSET:
        logger.setLevel((*_LEVELS, logging.CRITICAL + 1)[_NAMES.index(name)])
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(_Formatter())
        logger.addHandler(handler)


def emit(level: int, text: str) -> None:
    """Log a message of the native runtime.

    Args:
        level: A level of the native interface, 0 (debug) to 3 (error).
        text: The message.
    """
    logger.log(_LEVELS[min(max(level, 0), 3)], "%s", text)


def native_level() -> int:
    """Return the lowest native level that the logger accepts now; 4 if it accepts no messages."""
    effective = logger.getEffectiveLevel()
    return sum(level < effective for level in _LEVELS)


_configure()
