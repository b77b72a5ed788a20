"""The recipes of edgecore's own kernels, which `make_plan` treats as the last backend, named `kernels`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from edgecore.plugin import QuantizerRecipe, RecipeSupport
from edgecore.recipe import RecipeParameters

NAME = "kernels"
"""The backend name under which users choose the recipes of edgecore's kernels."""


class Int16x8(RecipeParameters):
    """Parameters of the recipe `int16x8`: activations of int16, weights of int8."""

    weights: Literal["channel", "tensor"] = "channel"
    activations: Literal["static"] = "static"
    observer: Literal["histogram", "minmax", "moving-average"] = "histogram"


class Int8(RecipeParameters):
    """Parameters of the recipe `int8`."""

    weights: Literal["channel", "tensor"] = "channel"
    symmetric: bool = False
    activations: Literal["static"] = "static"
    observer: Literal["histogram", "minmax", "moving-average"] = "histogram"


def _recipe(parameters: Int8 | Int16x8) -> QuantizerRecipe:
    def make(is_qat: bool = False) -> Any:
        from edgecore.quantize.kernels.quantizer import KernelQuantizer, config

        return KernelQuantizer().set_global(config(parameters, is_qat=is_qat))

    return QuantizerRecipe(make, calibrates=True, make_training_quantizer=partial(make, is_qat=True))


RECIPES: Mapping[str, RecipeSupport] = {
    "int8": RecipeSupport(Int8, _recipe),
    "int16x8": RecipeSupport(Int16x8, _recipe),
}
