"""Recipes of `edgecore.compile(quantize=...)` that rewrite the exported program before partitioning."""
