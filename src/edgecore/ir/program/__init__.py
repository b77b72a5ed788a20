"""Exported programs as a whole: copies, constants, mutable state, outputs and symbolic sizes."""
