"""Decompositions that torch lacks, or that torch has only with operators without kernels: one family in each file."""
