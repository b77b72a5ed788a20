"""Lowering, partitioners, passes and memory planning, under the names of ExecuTorch's module `executorch.exir`."""
