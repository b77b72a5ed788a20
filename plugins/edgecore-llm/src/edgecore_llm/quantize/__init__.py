"""Quantize weights: rounding, the packed layout of matrices, and reference implementations of their products."""
