"""Options of the XNNPACK backend."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from edgecore.sdk import Names, SplitNames
from edgecore_xnnpack.operators import TABLE

Precision = Literal["FP32", "FP16", "STATIC_QUANT", "DYNAMIC_QUANT"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class XnnpackOptions(BaseModel):
    """Options of `Backend("xnnpack", ...)`; on the command line `+` joins the names of a list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    force_fp16: bool = Field(
        default=False,
        description="Compute in half precision, with weights of 16 bits; inputs and outputs stay as they are.",
    )
    config_precisions: Annotated[tuple[Precision, ...], SplitNames] = Field(
        default=PRECISIONS,
        min_length=1,
        description="Kinds of operators to take: floating point (FP16 with force_fp16, else FP32); STATIC_QUANT what reads "
        "or gives 8 bits, DYNAMIC_QUANT linear layers whose inputs are rounded at run time.",
    )
    configs: Names = Field(
        default=(),
        description="Operators to take, such as linear or aten.add.Tensor, or, all with a minus before them, those to "
        "leave; by default all that XNNPACK has.",
    )
    per_op_mode: bool = Field(
        default=False,
        description="A delegate for each operator, with its conversions: slow, to find the one that errs.",
    )
    verbose: bool = Field(default=False, description="Print each operator call that is not taken, and why, on stderr.")

    @property
    def restricts(self) -> bool:
        """True if the options keep an operator that XNNPACK supports from being delegated."""
        return bool(self.configs) or set(self.config_precisions) != set(PRECISIONS)

    @field_validator("configs")
    @classmethod
    def _check_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len({name.startswith("-") for name in value}) > 1:
            raise ValueError("names either all with a minus or all without")
        TABLE.check_names([name.removeprefix("-") for name in value], namespace="aten")
        return value
