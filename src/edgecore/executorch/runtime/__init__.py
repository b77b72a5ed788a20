"""The Python runtime by the names of ExecuTorch's module `executorch.runtime` and of its bindings."""
