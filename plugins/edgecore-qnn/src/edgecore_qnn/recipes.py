"""Recipes of `edgecore.compile(quantize=...)` for the QNN backend, with their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from edgecore.plugin import QuantizerRecipe, RecipeSupport, RewriteRecipe
from edgecore.sdk import RecipeParameters, copy_program
from edgecore.sdk.annotations import OBSERVERS
from edgecore_qnn.quantizer import QnnQuantizer, QuantDtype


class Integers(RecipeParameters):
    """Parameters of `int8`."""

    weights: Literal["channel", "tensor"] = "channel"
    symmetric: bool = False
    activations: Literal["static"] = "static"
    observer: Literal["histogram", "minmax", "moving-average"] = "minmax"


class Int16x8(Integers):
    """Parameters of `int16x8`."""

    weight_bits: Literal[8, 4] = 8


def _int8(parameters: Integers) -> QuantizerRecipe:
    return _recipe(QuantDtype.use_8a8w, parameters)


def _int16x8(parameters: Int16x8) -> QuantizerRecipe:
    return _recipe(QuantDtype.use_16a4w if parameters.weight_bits == 4 else QuantDtype.use_16a8w, parameters)


def _recipe(quant_dtype: QuantDtype, parameters: Integers) -> QuantizerRecipe:
    def make(is_qat: bool = False) -> QnnQuantizer:
        quantizer = QnnQuantizer()
        is_per_channel = parameters.weights == "channel"
        quantizer.set_default_quant_config(
            quant_dtype,
            is_qat=is_qat,
            is_conv_per_channel=is_per_channel,
            is_linear_per_channel=is_per_channel,
            act_observer=OBSERVERS[parameters.observer],
            act_symmetric=parameters.symmetric,
        )
        return quantizer

    return QuantizerRecipe(make, calibrates=True, make_training_quantizer=partial(make, is_qat=True))


def _fp16(parameters: RecipeParameters) -> RewriteRecipe:
    return RewriteRecipe(lambda program, selects: copy_program(program), {"use_fp16": True}, "float16")


RECIPES: Mapping[str, RecipeSupport] = {
    "int8": RecipeSupport(Integers, _int8, steps=1),
    "int16x8": RecipeSupport(Int16x8, _int16x8, steps=16),
    "fp16": RecipeSupport(RecipeParameters, _fp16, takes_rules=False),
}
