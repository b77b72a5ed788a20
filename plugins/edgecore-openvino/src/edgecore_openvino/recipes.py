"""Recipes of `edgecore.compile(quantize=...)` for OpenVINO, with their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from pydantic import Field, model_validator

from edgecore.plugin import QuantizerRecipe, RecipeSupport, RewriteRecipe
from edgecore.sdk import RecipeParameters
from edgecore.sdk.annotations import OBSERVERS
from edgecore_openvino.integer_weights import quantize_weights
from edgecore_openvino.quantizer import OpenvinoQuantizer


class Int8(RecipeParameters):
    """Parameters of `int8`: static quantization."""

    weights: Literal["channel", "tensor"] = "channel"
    symmetric: bool = False
    observer: Literal["histogram", "minmax", "moving-average"] = "histogram"


class _Weights(RecipeParameters):
    group: int = Field(default=32, ge=2)
    symmetric: bool = True
    activations: Literal["none"] = "none"

    @model_validator(mode="before")
    @classmethod
    def _group_implies_groups(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {"weights": "group", **values} if "group" in values else values


class Int8Weights(_Weights):
    """Parameters of `int8-weights`; `symmetric` applies to weights."""

    weights: Literal["channel", "group"] = "channel"


class Int4Weights(_Weights):
    """Parameters of `int4-weights`; `symmetric` applies to weights."""

    weights: Literal["group", "channel"] = "group"


def _int8(parameters: Int8) -> QuantizerRecipe:
    observer = OBSERVERS[parameters.observer]
    return QuantizerRecipe(
        lambda: OpenvinoQuantizer(parameters.weights, parameters.symmetric, observer), calibrates=True
    )


def _weights(bits: int, parameters: Int8Weights | Int4Weights) -> RewriteRecipe:
    group = parameters.group if parameters.weights == "group" else None
    return RewriteRecipe(partial(quantize_weights, bits=bits, group=group, is_symmetric=parameters.symmetric))


def _fp16(parameters: RecipeParameters) -> RewriteRecipe:
    """Return the recipe that stores weights in float16; `edgecore.compare` also rounds the expected results."""
    return RewriteRecipe(lambda program, selects: program, options={"half_weights": True}, computes_in="float16")


RECIPES: Mapping[str, RecipeSupport] = {
    "int8": RecipeSupport(Int8, _int8),
    "int8-weights": RecipeSupport(Int8Weights, partial(_weights, 8)),
    "int4-weights": RecipeSupport(Int4Weights, partial(_weights, 4)),
    "fp16": RecipeSupport(RecipeParameters, _fp16, takes_rules=False),
}
