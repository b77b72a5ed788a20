"""Helpers of the pass `fuse_integers`: quantized values, and the rules that fuse layers and average pools."""
