"""Options of the XNNPACK backend."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class XnnpackOptions(BaseModel):
    """None yet: float32 graphs need no choice."""

    model_config = ConfigDict(extra="forbid", frozen=True)
