"""From a partition to an ML program: coremltools, and what it needs to convert calls as PyTorch computes them."""
