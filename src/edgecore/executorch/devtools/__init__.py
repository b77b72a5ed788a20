"""The Inspector and ETRecords, by the names of ExecuTorch's module `executorch.devtools`."""
