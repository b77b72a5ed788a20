"""Types for the fields of a backend's options, which are a pydantic model."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator


def _split(value: Any) -> Any:
    return tuple(value.split("+")) if isinstance(value, str) else value


SplitNames = BeforeValidator(_split)
"""Validator that splits a string at `+` into a tuple of names, as users write it on the command line.

For a field whose elements have another type than `str`: `Annotated[tuple[Kind, ...], SplitNames]`.
"""

Names = Annotated[tuple[str, ...], SplitNames]
"""Type of an option that holds any number of names; on the command line they are joined by `+`: `-b acme:only=conv+relu`."""
