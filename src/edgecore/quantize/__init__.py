"""Quantization by one word: recipes over torchao's PT2E flow, with the quantizer of a backend."""

from edgecore.quantize.calibration import Calibration, samples
from edgecore.quantize.recipe import find_quantizer, quantize_model

__all__ = ["Calibration", "find_quantizer", "quantize_model", "samples"]
