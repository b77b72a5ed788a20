"""Rewrites into the edge dialect without tracing: a few nodes replace one node."""
