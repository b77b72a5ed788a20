"""ETRecords: a program's graphs and the maps from instructions to debug handles, for ExecuTorch's developer tools."""
