"""Passes over edge programs, one a file, and the pass manager."""
