"""The passes; each file has the name of its pass."""
