"""A stand-in for Core ML on other systems, for tests; it is only used if requested by name."""
