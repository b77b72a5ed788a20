"""The export flow and its recipes, under the names of ExecuTorch's module `executorch.export`."""
