"""Options of the XNNPACK backend."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from edgecore_xnnpack.operators import TABLE

Precision = Literal["FP32", "FP16", "STATIC_QUANT", "DYNAMIC_QUANT"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class XnnpackOptions(BaseModel):
    """What `Backend("xnnpack", ...)` takes; on the command line `+` joins the names of a list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    force_fp16: bool = Field(
        default=False,
        description="Compute in half precision, with weights of 16 bits; inputs and outputs stay as they are.",
    )
    config_precisions: tuple[Precision, ...] = Field(
        default=PRECISIONS,
        min_length=1,
        description="Kinds of operators to take: floating point (FP16 with force_fp16, else FP32); STATIC_QUANT what reads "
        "or gives 8 bits, DYNAMIC_QUANT linear layers whose inputs are rounded at run time.",
    )
    configs: tuple[str, ...] = Field(
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
    def chooses(self) -> bool:
        """Whether anything that XNNPACK has may stay outside."""
        return bool(self.configs) or set(self.config_precisions) != set(PRECISIONS)

    @field_validator("config_precisions", "configs", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(value.split("+")) if isinstance(value, str) else value

    @field_validator("configs")
    @classmethod
    def _check_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len({name.startswith("-") for name in value}) > 1:
            raise ValueError("names either all with a minus or all without")
        known = sorted({name for target in TABLE if target.namespace == "aten" for name in names_of(target)})
        for name in (name.removeprefix("-") for name in value):
            if name not in known:
                near = ", ".join(get_close_matches(name, known)) or "linear, convolution, ..."
                raise ValueError(f"XNNPACK has no operator {name!r}; the report names them as here: {near}")
        return value


def names_of(target: Any) -> tuple[str, str]:
    """`add` and `aten.add.Tensor`."""
    return target._schema.name.rpartition("::")[2], str(target)
