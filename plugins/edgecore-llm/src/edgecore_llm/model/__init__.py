"""The decoder of all families."""
