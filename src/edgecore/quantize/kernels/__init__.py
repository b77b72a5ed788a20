"""The recipes of edgecore's own kernels. Their quantizer, which needs torchao, is imported at the first use."""

from edgecore.quantize.kernels.recipes import NAME, RECIPES, Int8, Int16x8

__all__ = ["NAME", "RECIPES", "Int8", "Int16x8"]
