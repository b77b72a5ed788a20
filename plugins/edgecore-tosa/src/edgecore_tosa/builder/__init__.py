"""Helpers of `operators`, which lowers calls to TOSA: operator table, graph builder, functions by lookup tables."""
