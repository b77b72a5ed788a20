"""The checks of the conformance suite: one file for each group of checks."""
