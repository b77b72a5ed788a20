"""ETRecords: a program's graphs, debug handles and instruction maps, for ExecuTorch's developer tools."""
