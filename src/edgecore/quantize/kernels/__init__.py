"""The recipes of edgecore's own kernels; their quantizer is imported when a recipe is used."""

from edgecore.quantize.kernels.recipes import NAME, RECIPES, Int8, Int16x8

__all__ = ["NAME", "RECIPES", "Int8", "Int16x8"]
