"""Configurations of executorch as plain values."""

from __future__ import annotations

import dataclasses
import enum


def plain(value):
    """A configuration of executorch as dictionaries and plain values."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value
