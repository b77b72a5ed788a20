"""The integers of an edge program: their scales, the values that have them, and rewrites before quantization."""
