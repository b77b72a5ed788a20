"""Recipes by the names of ExecuTorch's module `executorch.export`."""
