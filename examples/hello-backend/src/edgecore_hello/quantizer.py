"""Recipes for quantization. There is none yet: `edgecore.compile(quantize="int8", backends=["hello"])` raises an error.

To add a recipe:

1. Write a class `HelloQuantizer(torchao.quantization.pt2e.quantizer.Quantizer)` whose `annotate` marks the values of a
   model that become integers, with their scales and ranges.
2. Add rows for `quantized_decomposed.quantize_per_tensor` and `dequantize_per_tensor` to `operators.py`, or write a
   partitioner that tags dequantize, operator and quantize together. The blob stores scale and zero point, and the
   delegate computes with integers.
3. Declare the parameters that users can set, with the values that your chip supports. Names and meanings follow
   `edgecore.Recipe`:

       class Int8(edgecore.sdk.RecipeParameters):
           weights: Literal["channel", "tensor"] = "channel"

4. Add an entry below, which creates the recipe from an instance of this class:

       "int8": RecipeSupport(
           Int8, lambda chosen: QuantizerRecipe(lambda: HelloQuantizer(chosen.weights), calibrates=True)
       )
"""

from __future__ import annotations

from collections.abc import Mapping

from edgecore.plugin import RecipeSupport


def recipes() -> Mapping[str, RecipeSupport]:
    """Return the recipes by the names that users write in `quantize=`: `int8`, `int4-weights` and so on."""
    return {}
