"""The Inspector and ETRecords, under the names of ExecuTorch's module `executorch.devtools`."""
