"""Options of `Backend("hello", ...)`; README and error messages are made from the fields."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from edgecore.sdk import Names
from edgecore_hello.operators import TABLE


class HelloOptions(BaseModel):
    """Options of the Hello backend, each with a type, a default and a description."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operators: Names = Field(
        default=(),
        description="Take only these operators, such as `add` or `aten.add.Tensor`; all if empty.",
    )
    min_operators: int = Field(
        default=1, ge=1, description="Leave a partition outside that has fewer operators than this."
    )
    fuse_relu: bool = Field(default=True, description="Compute a relu together with the operator before it.")

    @field_validator("operators")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(TABLE.check_names(names))
