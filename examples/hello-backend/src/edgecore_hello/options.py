"""Options of `Backend("hello", ...)`. The README's table and error messages are generated from these fields."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from edgecore.sdk import Names
from edgecore_hello.operators import TABLE


class HelloOptions(BaseModel):
    """Options of the Hello backend, each with a type, a default and a description."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operators: Names = Field(
        default=(),
        description="Delegate only these operators, such as `add` or `aten.add.Tensor`; empty: all.",
    )
    min_operators: int = Field(
        default=1, ge=1, description="Do not delegate a partition with fewer operators than this."
    )
    fuse_relu: bool = Field(default=True, description="Fuse a relu with the operator before it.")

    @field_validator("operators")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(TABLE.check_names(names))
