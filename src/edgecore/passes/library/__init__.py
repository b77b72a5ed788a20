"""The passes, one in each file, which has its name."""
