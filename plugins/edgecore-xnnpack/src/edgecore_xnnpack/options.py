"""Options of the XNNPACK backend."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from edgecore.sdk import Names, SplitNames
from edgecore_xnnpack.operators import TABLE

Precision = Literal["FP32", "FP16", "STATIC_QUANT", "DYNAMIC_QUANT"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class XnnpackOptions(BaseModel):
    """Options of `Backend("xnnpack", ...)`. On the command line, `+` separates the names in a list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    force_fp16: bool = Field(
        default=False,
        description="Compute in fp16, with fp16 weights; inputs and outputs of the model keep their dtypes.",
    )
    config_precisions: Annotated[tuple[Precision, ...], SplitNames] = Field(
        default=PRECISIONS,
        min_length=1,
        description="Kinds of operators to delegate: FP32; FP16 (floating point with force_fp16); STATIC_QUANT "
        "(operators that read or return int8 tensors); DYNAMIC_QUANT (layers whose inputs are quantized at run time).",
    )
    configs: Names = Field(
        default=(),
        description="Operators to delegate, such as linear or aten.add.Tensor; or, with a minus before each name, "
        "operators not to delegate. By default every supported operator is delegated.",
    )
    per_op_mode: bool = Field(
        default=False,
        description="Give each operator a delegate of its own: slow, to find the operator with wrong results.",
    )
    force_non_static_weights_for_f32_linear: bool = Field(
        default=False,
        description="Weights and biases of linear layers in float32 stay in the program, as inputs of the delegates: "
        "for weights that the program shares or changes. Slower.",
    )
    verbose: bool = Field(
        default=False, description="Print each operator call that is not delegated, and the reason, on stderr."
    )

    @property
    def restricts(self) -> bool:
        """True if the options can exclude an operator that XNNPACK supports."""
        return bool(self.configs) or set(self.config_precisions) != set(PRECISIONS)

    @field_validator("configs")
    @classmethod
    def _check_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len({name.startswith("-") for name in value}) > 1:
            raise ValueError("put a minus before all names or before none")
        TABLE.check_names([name.removeprefix("-") for name in value], namespace="aten")
        return value
