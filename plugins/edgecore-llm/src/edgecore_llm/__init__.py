"""Language models for edgecore. Tools import this module to find the package, so it imports nothing."""
