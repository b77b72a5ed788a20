"""Types for the options of a backend (fields of its pydantic model)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator


def _split(value: Any) -> Any:
    return tuple(value.split("+")) if isinstance(value, str) else value


SplitNames = BeforeValidator(_split)
"""Annotation of a tuple of names that makes a text of names, joined by `+`, such a tuple: `Annotated[tuple[Kind,
...], SplitNames]`."""

Names = Annotated[tuple[str, ...], SplitNames]
"""Any number of names; on the command line `+` joins them."""
