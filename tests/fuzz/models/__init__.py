"""Random small models with state, views, in-place writes, layouts and conditions, on every backend and recipe."""
