"""Quantized weights: rounding, the packed layout, and reference products."""
