"""Recipes for quantization. There is none yet: `edgecore.compile(quantize="int8", backends=["hello"])` raises an error.

To add a recipe:

1. Write a class `HelloQuantizer(torchao.quantization.pt2e.quantizer.Quantizer)` whose `annotate` marks the values of a
   model that become integers, with their scales and ranges.
2. Add rows for `quantized_decomposed.quantize_per_tensor` and `dequantize_per_tensor` to `operators.py`, or write a
   partitioner that tags dequantize, operator and quantize together. The blob stores scale and zero point, and the
   delegate computes with integers.
3. Add an entry below, such as `{"int8": Recipe(HelloQuantizer, calibrates=True)}`.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgecore.plugin import Recipe, RewriteRecipe


def recipes() -> Mapping[str, Recipe | RewriteRecipe]:
    """Return the recipes by the name that users pass as `quantize=`."""
    return {}
