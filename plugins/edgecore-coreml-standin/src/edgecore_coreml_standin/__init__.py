"""Compute Core ML models on systems without Core ML, with PyTorch, for tests; used only if requested by name."""
