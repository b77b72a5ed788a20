"""Convert a partition to an ML program: calls of coremltools, and the converters that coremltools lacks."""
