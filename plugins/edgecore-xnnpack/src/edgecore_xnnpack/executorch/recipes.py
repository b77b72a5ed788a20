"""The recipes that ExecuTorch scripts select by type. Importing this module registers their provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from edgecore.errors import CompileError
from edgecore.executorch.export.export import AOQuantizationConfig, ExportRecipe, LoweringRecipe, QuantizationRecipe
from edgecore.executorch.export.recipes import BackendRecipeProvider, RecipeType, recipe_registry
from edgecore_xnnpack.executorch.partitioner import XnnpackPartitioner
from edgecore_xnnpack.executorch.quantizer import XNNPACKQuantizer
from edgecore_xnnpack.quantizer import get_symmetric_quantization_config


class XNNPackRecipeType(RecipeType):
    """The recipes of XNNPACK: floating point, int8 by a quantizer, or 4-bit weights by torchao."""

    FP32 = "xnnpack_fp32"
    PT2E_INT8_DYNAMIC_PER_CHANNEL = "xnnpack_pt2e_int8_dynamic_per_channel"
    PT2E_INT8_STATIC_PER_CHANNEL = "xnnpack_pt2e_int8_static_per_channel"
    PT2E_INT8_STATIC_PER_TENSOR = "xnnpack_pt2e_int8_static_per_tensor"
    TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL = "xnnpack_torchao_int8da_int4w_per_channel"
    TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR = "xnnpack_torchao_int8da_int4w_per_tensor"

    @classmethod
    def get_backend_name(cls) -> str:
        """Return `xnnpack`."""
        return "xnnpack"


_QUANTIZER_SETTINGS = {
    XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL: {"is_per_channel": True, "is_dynamic": True},
    XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL: {"is_per_channel": True},
    XNNPackRecipeType.PT2E_INT8_STATIC_PER_TENSOR: {"is_per_channel": False},
}
_GROUPED = XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR
"""The recipe with a scale for each group of weights, despite `TENSOR` in its name."""


class XNNPACKRecipeProvider(BackendRecipeProvider):
    """Makes the recipes of `XNNPackRecipeType`."""

    @property
    def backend_name(self) -> str:
        """The name of the backend: `xnnpack`."""
        return XNNPackRecipeType.get_backend_name()

    def get_supported_recipes(self) -> Sequence[RecipeType]:
        """Return all members of `XNNPackRecipeType`."""
        return list(XNNPackRecipeType)

    def create_recipe(self, recipe_type: RecipeType, **kwargs: Any) -> ExportRecipe | None:
        """Create a recipe.

        Args:
            recipe_type: A type of `XNNPackRecipeType`; for others the result is None.
            kwargs: `group_size` for the recipe with groups: number of weights that share a scale; by default 32.

        Raises:
            CompileError: The recipe has no such parameter, or `group_size` is not a positive integer.
        """
        if not isinstance(recipe_type, XNNPackRecipeType):
            return None
        group_size = kwargs.pop("group_size", 32) if recipe_type is _GROUPED else None
        if kwargs:
            takes = "group_size" if recipe_type is _GROUPED else "no parameter"
            raise CompileError(f"the recipe {recipe_type.name} takes {takes}; got {', '.join(kwargs)}")
        if group_size is not None and (not isinstance(group_size, int) or group_size < 1):
            raise CompileError(f"group_size must be a positive integer; got {group_size!r}")
        return ExportRecipe(
            name=recipe_type.value,
            quantization_recipe=_quantization(recipe_type, group_size),
            lowering_recipe=LoweringRecipe(partitioners=[XnnpackPartitioner()]),
        )


def _quantization(recipe_type: XNNPackRecipeType, group_size: int | None) -> QuantizationRecipe | None:
    if recipe_type is XNNPackRecipeType.FP32:
        return None
    settings = _QUANTIZER_SETTINGS.get(recipe_type)
    if settings is not None:
        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(**settings))
        return QuantizationRecipe(quantizers=[quantizer])
    from torchao.quantization.granularity import PerAxis, PerGroup
    from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig

    int4 = getattr(torch, "int4")  # torch's type stubs lack torch.int4
    granularity = PerAxis(0) if group_size is None else PerGroup(group_size)
    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=int4, weight_granularity=granularity)
    return QuantizationRecipe(ao_quantization_configs=[AOQuantizationConfig(config)])


recipe_registry.register_backend_recipe_provider(XNNPACKRecipeProvider())
