"""Weights in few bits: rounding, the packed layout, and reference products."""
