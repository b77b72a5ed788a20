"""Build the decoder of all model families, and load its weights."""
