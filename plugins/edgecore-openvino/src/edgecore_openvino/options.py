"""Options of `Backend("openvino", ...)`. The README's table of options is generated from the fields."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from edgecore.sdk import Names
from edgecore_openvino.operators import TABLE


class OpenvinoOptions(BaseModel):
    """Options of the OpenVINO backend."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    device: str = Field(
        default="CPU",
        pattern=r"^(CPU|(GPU|NPU)(\.\d+)?|AUTO(:[A-Z0-9.,]+)?)$",
        description="Device: `CPU`, `GPU`, `GPU.1`, `NPU`, or `AUTO` (OpenVINO chooses when the file is loaded).",
    )
    precision: Literal["f32", "f16", "bf16"] = Field(
        default="f32",
        description="Precision to compute in: OpenVINO's INFERENCE_PRECISION_HINT.",
    )
    payload: Literal["portable", "blob"] = Field(
        default="portable",
        description="Store a model for any device, or a compiled one (`blob`).",
    )
    half_weights: bool = Field(
        default=False, description="Store float32 weights as float16: files of half the size, rounded weights."
    )
    streams: int = Field(
        default=1, ge=1, description="Number of instances of a method that run at the same time and share its threads."
    )
    operators: Names = Field(
        default=(),
        description="Delegate only these, such as `add` or `aten.add.Tensor`; all if empty.",
    )
    min_operators: int = Field(
        default=1, ge=1, description="Minimum number of operators in a partition; smaller partitions are not delegated."
    )

    @field_validator("operators")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(TABLE.check_names(names))
