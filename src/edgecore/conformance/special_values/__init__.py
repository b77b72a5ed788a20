"""NaN, infinities and denormal numbers: calls with them, and a page with a backend's differences from PyTorch."""
