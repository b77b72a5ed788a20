"""Recipes of `edgecore.compile(quantize=...)` for OpenVINO, with their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from edgecore.plugin import QuantizerRecipe, RecipeSupport
from edgecore.sdk import RecipeParameters
from edgecore.sdk.annotations import OBSERVERS
from edgecore_openvino.quantizer import OpenvinoQuantizer


class Int8(RecipeParameters):
    """Parameters of `int8`: static quantization."""

    weights: Literal["channel", "tensor"] = "channel"
    symmetric: bool = False
    observer: Literal["histogram", "minmax", "moving-average"] = "histogram"


def _int8(parameters: Int8) -> QuantizerRecipe:
    observer = OBSERVERS[parameters.observer]
    return QuantizerRecipe(
        lambda: OpenvinoQuantizer(parameters.weights, parameters.symmetric, observer), calibrates=True
    )


RECIPES: Mapping[str, RecipeSupport] = {"int8": RecipeSupport(Int8, _int8)}
