"""Options of `Backend("vulkan", ...)`. Their fields are the source of the README's table and of error messages."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator

from edgecore.sdk import Names, SplitNames
from edgecore_vulkan.graph.profile import BUFFER_LIMIT, SMALL_LIMITS, STOCK_LIMITS, Profile
from edgecore_vulkan.operators import TABLE
from edgecore_vulkan.schema.graph import Layout, Storage

_STORAGES = {"default": Storage.DEFAULT, "buffer": Storage.BUFFER, "texture_3d": Storage.TEXTURE_3D}
_LAYOUTS = {
    "default": Layout.DEFAULT,
    "width_packed": Layout.WIDTH_PACKED,
    "channels_packed": Layout.CHANNELS_PACKED,
}


class VulkanOptions(BaseModel):
    """Options of the Vulkan backend, with the names of ExecuTorch's `compile_options`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    force_fp16: bool = Field(
        default=False, description="Compute float32 models in float16; inputs and outputs stay float32."
    )
    require_dynamic_shapes: bool = Field(
        default=False,
        validation_alias=AliasChoices("require_dynamic_shapes", "required_dynamic_shapes"),
        description="Delegate only operators that allow symbolic sizes.",
    )
    skip_bool_tensors: bool = Field(
        default=False, description="Delegate no operators with boolean tensors, for GPUs without 8-bit buffers."
    )
    small_texture_limits: bool = Field(
        default=False, description="Assume 3-d textures of at most 2048 in each direction."
    )
    texture_limits: Annotated[tuple[int, ...], SplitNames] = Field(
        default=(),
        description="Maximum width, height and depth of 3-d textures.",
    )
    buffer_limit: int = Field(default=BUFFER_LIMIT, ge=1, description="Maximum number of elements of a tensor.")
    storage_type_override: Literal["default", "buffer", "texture_3d"] = Field(
        default="default", description="Storage to prefer."
    )
    memory_layout_override: Literal["default", "width_packed", "channels_packed"] = Field(
        default="default", description="Layout to prefer."
    )
    skip_memory_planning: bool = Field(
        default=False, description="Give each tensor memory of its own, to find errors of memory sharing."
    )
    operators: Names = Field(
        default=(), description="Delegate only these operators, such as `add` or `aten.add.Tensor`; empty: all."
    )
    min_operators: int = Field(
        default=1, ge=1, description="Do not delegate a partition with fewer operators than this."
    )

    @field_validator("operators")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(TABLE.check_names(names))

    @field_validator("texture_limits")
    @classmethod
    def _three(cls, limits: tuple[int, ...]) -> tuple[int, ...]:
        if limits and (len(limits) != len(STOCK_LIMITS) or min(limits) < 1):
            raise ValueError("must be three numbers above 0: width, height and depth")
        return limits

    def profile(self, runtime: str) -> Profile:
        """Return the `Profile`: these options, and the target `runtime`."""
        x, y, z = self.texture_limits or (SMALL_LIMITS if self.small_texture_limits else STOCK_LIMITS)
        return Profile(
            is_stock=runtime != "edgecore",
            force_fp16=self.force_fp16,
            require_dynamic_shapes=self.require_dynamic_shapes,
            skip_bool_tensors=self.skip_bool_tensors,
            texture_limits=(x, y, z),
            buffer_limit=self.buffer_limit,
            storage=_STORAGES[self.storage_type_override],
            layout=_LAYOUTS[self.memory_layout_override],
            skip_memory_planning=self.skip_memory_planning,
        )
