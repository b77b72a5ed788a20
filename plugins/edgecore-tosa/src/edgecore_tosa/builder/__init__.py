"""Helpers of `operators`, which lowers fx nodes to TOSA: operator table, graph builder, and lookup tables."""
