"""Exceptions of this package. Each message is one sentence that says what is wrong and where, and often what to do."""

from __future__ import annotations

from edgecore.errors import EdgecoreError


class CheckpointError(EdgecoreError, ValueError):
    """A checkpoint is damaged, incomplete, or of a kind that this package does not read."""


class ConfigError(EdgecoreError, ValueError):
    """A configuration has an unknown key or a value that is not allowed."""


class TokenizerError(EdgecoreError, ValueError):
    """A tokenizer or a chat template is damaged, or does not fit the model."""


class SessionError(EdgecoreError, ValueError):
    """A `.pte` contains no language model, or its session cannot compute the requested tokens."""
