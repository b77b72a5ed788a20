"""Quantize an edge program for TOSA: scales, parameters of values, and rewrites before the quantization."""
