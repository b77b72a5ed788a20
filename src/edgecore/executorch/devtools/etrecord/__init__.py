"""ETRecords: what the compiler knows about a program, for ExecuTorch's developer tools."""
