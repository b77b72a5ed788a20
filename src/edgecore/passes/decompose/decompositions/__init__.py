"""Decompositions that torch lacks, or that in torch lead to operators without kernels; one family in each file."""
