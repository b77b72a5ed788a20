"""Options of `Backend("openvino", ...)`. The README's table of options is generated from the fields."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from edgecore.sdk import Names
from edgecore_openvino.operators import TABLE


class OpenvinoOptions(BaseModel):
    """Options of the OpenVINO backend."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    device: str = Field(
        default="CPU",
        pattern=r"^(CPU|(GPU|NPU)(\.\d+)?|AUTO(:[A-Z0-9.,]+)?)$",
        description="Device: `CPU`, `GPU`, `GPU.1`, `NPU`, or `AUTO`, `AUTO:GPU,CPU` (OpenVINO chooses at load).",
    )
    precision: Literal["f32", "f16", "bf16"] = Field(
        default="f32",
        description="Precision to compute in: OpenVINO's INFERENCE_PRECISION_HINT.",
    )
    payload: Literal["portable", "blob", "executorch"] = Field(
        default="portable",
        description="Portable, or compiled, with or without header.",
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

    @model_validator(mode="after")
    def _device_is_known_when_compiling(self) -> OpenvinoOptions:
        if self.payload != "portable" and self.device.startswith("AUTO"):
            raise ValueError(f"payload={self.payload!r} needs one device, not {self.device}; use payload='portable'")
        if self.payload == "executorch" and self.device != "CPU":
            raise ValueError(f"payload='executorch' is only for the device CPU, not {self.device}; use payload='blob'")
        return self

    @field_validator("operators")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(TABLE.check_names(names))
