"""Lowering with ExecuTorch's order of arguments, defaults and names of nodes, for its scripts."""
