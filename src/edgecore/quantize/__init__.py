"""Quantize a model with the recipes of backends, through torchao's PT2E flow."""

from edgecore.numerics.quality import (
    LayerQuality,
    Quantized,
    layer_qualities,
    lost_layers,
    output_ratios,
    warn_of_losses,
    warn_of_lost_layers,
)
from edgecore.quantize.apply_recipes import quantize_model
from edgecore.quantize.calibration import Calibration, samples
from edgecore.quantize.plan import Plan, compute_dtype, make_plan, options_of, recipes_of
from edgecore.quantize.rules import check_rules
from edgecore.quantize.training import convert_trained, is_prepared, prepare_training

__all__ = [
    "Calibration",
    "LayerQuality",
    "Plan",
    "Quantized",
    "check_rules",
    "compute_dtype",
    "convert_trained",
    "is_prepared",
    "layer_qualities",
    "lost_layers",
    "make_plan",
    "options_of",
    "output_ratios",
    "prepare_training",
    "quantize_model",
    "recipes_of",
    "samples",
    "warn_of_losses",
    "warn_of_lost_layers",
]
