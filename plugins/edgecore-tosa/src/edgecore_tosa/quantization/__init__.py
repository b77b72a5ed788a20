"""Quantization of an edge program: scales, parameters of values, and rewrites before quantization."""
