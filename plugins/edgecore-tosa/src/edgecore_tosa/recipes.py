"""Quantization recipes for TOSA targets, for `edgecore.compile(quantize=...)`, with their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from edgecore.plugin import QuantizerRecipe, RecipeSupport
from edgecore.sdk import RecipeParameters
from edgecore.sdk.annotations import OBSERVERS
from edgecore_tosa.quantizer import (
    QuantizationConfig,
    TosaQuantizer,
    get_symmetric_a8w4_quantization_config,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)


class Int16x8(RecipeParameters):
    """Parameters of `int16x8`."""

    weights: Literal["channel", "tensor"] = "channel"
    activations: Literal["static"] = "static"
    observer: Literal["histogram", "minmax", "moving-average"] = "histogram"


class Int8(Int16x8):
    """Parameters of `int8`."""

    weight_bits: Literal[8, 4] = 8


def _int8(parameters: Int8) -> QuantizerRecipe:
    is_int4 = parameters.weight_bits == 4
    config = get_symmetric_a8w4_quantization_config if is_int4 else get_symmetric_quantization_config
    return _recipe(config, parameters)


def _int16x8(parameters: Int16x8) -> QuantizerRecipe:
    return _recipe(get_symmetric_a16w8_quantization_config, parameters)


def _recipe(config: Callable[..., QuantizationConfig], parameters: Int16x8) -> QuantizerRecipe:
    def make(is_qat: bool = False) -> TosaQuantizer:
        chosen = config(
            is_per_channel=parameters.weights == "channel", is_qat=is_qat, observer=OBSERVERS[parameters.observer]
        )
        return TosaQuantizer().set_global(chosen)

    return QuantizerRecipe(make, calibrates=True, make_training_quantizer=partial(make, is_qat=True))


RECIPES: Mapping[str, RecipeSupport] = {
    "int8": RecipeSupport(Int8, _int8),
    # For int48, RESCALE's multipliers have 15 bits, so a rescaled int16 result near 2^15 may be off by 2^-15 of its
    # value, which is one step.
    "int16x8": RecipeSupport(Int16x8, _int16x8, steps=1),
}
