"""Quantization recipes of the Core ML backend for `edgecore.compile(quantize=...)`, with their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from pydantic import Field, model_validator

from edgecore.plugin import QuantizerRecipe, RecipeSupport, RewriteRecipe
from edgecore.sdk import RecipeParameters
from edgecore_coreml.quantizer import CoreMLQuantizer, Scheme
from edgecore_coreml.weights.integers import quantize_weights
from edgecore_coreml.weights.palettes import Palette, describe_weights, palettize


class Int8(RecipeParameters):
    """Parameters of `int8`."""

    weights: Literal["channel", "tensor"] = "channel"
    activations: Literal["static"] = "static"
    observer: Literal["histogram", "minmax", "moving-average"] = "histogram"


class Int8Weights(RecipeParameters):
    """Parameters of `int8-weights`."""

    weights: Literal["channel"] = "channel"
    activations: Literal["none"] = "none"


class Int4Weights(RecipeParameters):
    """Parameters of `int4-weights`."""

    weights: Literal["group", "channel"] = "group"
    group: int = Field(default=32, ge=1)
    activations: Literal["none"] = "none"


class Palettes(RecipeParameters):
    """Parameters of `palette4`: bits of an index into a table of values; one table per weight or per channel group."""

    weight_bits: Literal[4, 1, 2, 3, 6, 8] = 4
    weights: Literal["tensor", "group"] = "tensor"
    group: int = Field(default=16, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _group_implies_groups(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {"weights": "group", **values} if "group" in values else values


def _palette4(parameters: Palettes) -> RewriteRecipe:
    palette = Palette(parameters.weight_bits, parameters.group if parameters.weights == "group" else 0)
    return RewriteRecipe(partial(palettize, palette=palette), describe_weights=describe_weights)


def _int8(parameters: Int8) -> QuantizerRecipe:
    scheme = Scheme(
        is_per_channel=parameters.weights == "channel", has_symmetric_activations=False, observer=parameters.observer
    )
    return QuantizerRecipe(lambda: CoreMLQuantizer().set_global(scheme), calibrates=True)


def _int8_weights(parameters: Int8Weights) -> RewriteRecipe:
    return RewriteRecipe(partial(quantize_weights, recipe="int8-weights", bits=8))


def _int4_weights(parameters: Int4Weights) -> RewriteRecipe:
    group = parameters.group if parameters.weights == "group" else None
    return RewriteRecipe(partial(quantize_weights, recipe="int4-weights", bits=4, group=group))


RECIPES: Mapping[str, RecipeSupport] = {
    "int8": RecipeSupport(Int8, _int8),
    "int8-weights": RecipeSupport(Int8Weights, _int8_weights),
    "int4-weights": RecipeSupport(Int4Weights, _int4_weights),
    "palette4": RecipeSupport(Palettes, _palette4),
}
