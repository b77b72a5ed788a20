"""Drop two messages that torchao prints at import on every machine without CUDA, and that users cannot act on."""

from __future__ import annotations

import logging

_MESSAGES = {"torchao": "Failed to load ", "torch.utils._pytree": "<enum 'KernelPreference'> is an Enum subclass"}
"""Logger -> beginning of its message: about missing CUDA libraries, and about a deprecation inside torchao."""


class _Drop(logging.Filter):
    def __init__(self, beginning: str) -> None:
        super().__init__()
        self._beginning = beginning

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(self._beginning)


def drop_torchao_messages() -> None:
    """Let the loggers drop these messages. Call this function once, before torchao is imported."""
    for name, beginning in _MESSAGES.items():
        logging.getLogger(name).addFilter(_Drop(beginning))
