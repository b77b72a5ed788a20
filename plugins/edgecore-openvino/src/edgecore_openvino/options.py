"""Options of `Backend("openvino", ...)`; README and error messages are made from the fields."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from edgecore.sdk import Names
from edgecore_openvino.operators import TABLE


class OpenvinoOptions(BaseModel):
    """Options of the OpenVINO backend, each with a type, a default and a description."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    device: str = Field(
        default="CPU",
        pattern=r"^(CPU|(GPU|NPU)(\.\d+)?|AUTO(:[A-Z0-9.,]+)?)$",
        description="Where it runs: `CPU`, `GPU`, `GPU.1`, `NPU`, or `AUTO` (chosen on loading).",
    )
    precision: Literal["f32", "f16", "bf16"] = Field(
        default="f32",
        description="OpenVINO's INFERENCE_PRECISION_HINT.",
    )
    payload: Literal["portable", "blob"] = Field(
        default="portable",
        description="The model (`portable`), or the model compiled now (`blob`).",
    )
    half_weights: bool = Field(
        default=False, description="Store float32 weights as float16: half the file, rounded weights."
    )
    streams: int = Field(
        default=1, ge=1, description="Instances of a method that run at the same time and share its threads."
    )
    operators: Names = Field(
        default=(),
        description="Support only these operators, such as `add` or `aten.add.Tensor`; all if empty.",
    )
    min_operators: int = Field(
        default=1, ge=1, description="Leave a partition outside that has fewer operators than this."
    )

    @field_validator("operators")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(TABLE.check_names(names))
