"""Calls of operators with NaN, infinities and denormal numbers, and a page of a backend's differences from PyTorch."""
