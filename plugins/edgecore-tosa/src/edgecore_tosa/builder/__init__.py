"""Helpers for the rows in `operators`: the table, the graph builder, and integer functions by lookup."""
