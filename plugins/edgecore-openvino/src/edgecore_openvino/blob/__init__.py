"""Blobs: their format, the graph of their model, and the process that compiles the model for a device."""
