"""The recipes of `edgecore.compile(quantize=...)` for targets of TOSA, with their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from edgecore.plugin import QuantizerRecipe, RecipeSupport
from edgecore.sdk import RecipeParameters
from edgecore.sdk.annotations import OBSERVERS
from edgecore_tosa.quantizer import (
    QuantizationConfig,
    TosaQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)


class Integers(RecipeParameters):
    """Parameters of `int8` and `int16x8`."""

    weights: Literal["channel", "tensor"] = "channel"
    activations: Literal["static"] = "static"
    observer: Literal["histogram", "minmax", "moving-average"] = "histogram"


def _recipe(config: Callable[..., QuantizationConfig], parameters: Any) -> QuantizerRecipe:
    def make(is_qat: bool = False) -> TosaQuantizer:
        chosen = config(
            is_per_channel=parameters.weights == "channel", is_qat=is_qat, observer=OBSERVERS[parameters.observer]
        )
        return TosaQuantizer().set_global(chosen)

    return QuantizerRecipe(make, calibrates=True, make_training_quantizer=partial(make, is_qat=True))


RECIPES: Mapping[str, RecipeSupport] = {
    "int8": RecipeSupport(Integers, partial(_recipe, get_symmetric_quantization_config)),
    "int16x8": RecipeSupport(Integers, partial(_recipe, get_symmetric_a16w8_quantization_config)),
}
