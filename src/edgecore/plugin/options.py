"""Types for the options of a backend (fields of its pydantic model)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator


def _split(value: Any) -> Any:
    return tuple(value.split("+")) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""Several names; on the command line `+` joins them."""
