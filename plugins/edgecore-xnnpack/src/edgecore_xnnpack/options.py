"""Options of the XNNPACK backend."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class XnnpackOptions(BaseModel):
    """What `Backend("xnnpack", ...)` takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    force_fp16: bool = Field(
        default=False,
        description="Compute in half precision, with weights of 16 bits; inputs and outputs stay as they are.",
    )
