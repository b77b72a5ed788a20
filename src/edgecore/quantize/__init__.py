"""Quantize a model with a named recipe of a backend, through torchao's PT2E flow."""

from edgecore.quantize.calibration import Calibration, samples
from edgecore.quantize.quality import LayerQuality, Quantized, layer_qualities, output_ratios, warn_of_losses
from edgecore.quantize.recipe import find_recipe, quantize_model

__all__ = [
    "Calibration",
    "LayerQuality",
    "Quantized",
    "find_recipe",
    "layer_qualities",
    "output_ratios",
    "quantize_model",
    "samples",
    "warn_of_losses",
]
