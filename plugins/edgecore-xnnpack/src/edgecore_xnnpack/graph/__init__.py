"""The graph between edge dialect and blob, and the lowering that creates it."""
