"""The Python runtime, under the names of ExecuTorch's module `executorch.runtime` and of its bindings."""
