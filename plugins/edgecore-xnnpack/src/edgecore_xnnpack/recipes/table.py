"""The recipes of `edgecore.compile(quantize=...)` for XNNPACK, with their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from pydantic import Field, model_validator

from edgecore.plugin import QuantizerRecipe, RecipeSupport, RewriteRecipe
from edgecore.sdk import RecipeParameters
from edgecore.sdk.annotations import OBSERVERS
from edgecore_xnnpack.quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from edgecore_xnnpack.recipes.fp16_embeddings import convert_embeddings_to_fp16
from edgecore_xnnpack.recipes.linear_weights import quantize_linear_layers


class Int8(RecipeParameters):
    """Parameters of `int8`."""

    weights: Literal["channel", "tensor"] = "channel"
    symmetric: bool = False
    activations: Literal["static"] = "static"
    observer: Literal["histogram", "minmax", "moving-average"] = "histogram"
    embeddings: Literal[4, 8] | None = None


class Int8Dynamic(RecipeParameters):
    """Parameters of `int8-dynamic`."""

    weights: Literal["channel", "tensor"] = "channel"
    activations: Literal["dynamic"] = "dynamic"
    embeddings: Literal[4, 8] | None = None


class Int8Weights(RecipeParameters):
    """Parameters of `int8-weights`."""

    weights: Literal["channel"] = "channel"
    activations: Literal["none", "dynamic"] = "none"
    embeddings: Literal[4, 8] | None = None


class Int4Weights(RecipeParameters):
    """Parameters of `int4-weights`."""

    weights: Literal["group", "channel"] = "group"
    group: int = Field(default=32, ge=8, multiple_of=8)
    activations: Literal["dynamic", "none"] = "dynamic"
    embeddings: Literal[4, 8] | None = None

    @model_validator(mode="after")
    def _has_kernel(self) -> Int4Weights:
        if self.weights == "group" and self.activations == "none":
            raise ValueError("XNNPACK has no kernel for activations='none' with groups; use weights='channel'")
        return self


def _int8(parameters: Int8) -> QuantizerRecipe:
    def make(is_qat: bool = False) -> XNNPACKQuantizer:
        config = get_symmetric_quantization_config(
            is_per_channel=parameters.weights == "channel",
            is_qat=is_qat,
            is_symmetric=parameters.symmetric,
            observer=OBSERVERS[parameters.observer],
        )
        return XNNPACKQuantizer().set_global(config)

    return QuantizerRecipe(make, calibrates=True, make_training_quantizer=partial(make, is_qat=True))


def _int8_dynamic(parameters: Int8Dynamic) -> QuantizerRecipe:
    def make() -> XNNPACKQuantizer:
        config = get_symmetric_quantization_config(is_per_channel=parameters.weights == "channel", is_dynamic=True)
        return XNNPACKQuantizer().set_global(config)

    return QuantizerRecipe(make, calibrates=False)


def _int8_weights(parameters: Int8Weights) -> RewriteRecipe:
    return RewriteRecipe(partial(quantize_linear_layers, bits=8, is_dynamic=parameters.activations == "dynamic"))


def _int4_weights(parameters: Int4Weights) -> RewriteRecipe:
    group = parameters.group if parameters.weights == "group" else None
    is_dynamic = parameters.activations == "dynamic"
    return RewriteRecipe(partial(quantize_linear_layers, bits=4, group=group, is_dynamic=is_dynamic))


def _fp16(parameters: RecipeParameters) -> RewriteRecipe:
    return RewriteRecipe(convert_embeddings_to_fp16, {"force_fp16": True}, "float16")


RECIPES: Mapping[str, RecipeSupport] = {
    "int8": RecipeSupport(Int8, _int8),
    "int8-dynamic": RecipeSupport(Int8Dynamic, _int8_dynamic),
    "int8-weights": RecipeSupport(Int8Weights, _int8_weights),
    "int4-weights": RecipeSupport(Int4Weights, _int4_weights),
    "fp16": RecipeSupport(RecipeParameters, _fp16, takes_rules=False),
}
