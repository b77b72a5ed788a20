"""Passes over the operator calls of a partition."""
