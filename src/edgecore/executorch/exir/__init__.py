"""Lowering, partitioners, passes and memory planning by the names of ExecuTorch's module `executorch.exir`."""
