"""Passes that rewrite the operator calls of a partition between lowering and encoding."""
