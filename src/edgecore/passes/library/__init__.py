"""The passes: one file for each, named after it."""
