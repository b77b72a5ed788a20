"""The errors that edgecore raises on purpose. Each message is one sentence: what, where, and what to do."""

from __future__ import annotations


class EdgecoreError(Exception):
    """Base of every error that edgecore raises on purpose."""


class CompileError(EdgecoreError):
    """A model that cannot be compiled."""
