"""Quantization. There is none yet: `edgecore.compile(quantize="int8", backends=["hello"])` says that it has no recipe.

To add it:

1. A class `HelloQuantizer(torchao.quantization.pt2e.quantizer.Quantizer)` whose `annotate` says which values of a model
   become integers, with which scale and range.
2. Rows for `quantized_decomposed.quantize_per_tensor` and `dequantize_per_tensor` in `operators.py`, or a partitioner that
   takes an operator between them as one; the blob keeps scale and zero point, the delegate computes with integers.
3. An entry below, such as `{"int8": Recipe(HelloQuantizer, calibrates=True)}`.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgecore.plugin import Recipe, RewriteRecipe


def recipes() -> Mapping[str, Recipe | RewriteRecipe]:
    """Return the recipes by the word that users write as `quantize=`: none yet."""
    return {}
