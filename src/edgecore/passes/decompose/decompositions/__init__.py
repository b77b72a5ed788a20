"""Decompositions of operators that torch does not decompose, or decomposes into operators without kernels."""
