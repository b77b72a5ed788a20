"""The graph that a partition becomes before its blob, and what makes it from the edge dialect."""
