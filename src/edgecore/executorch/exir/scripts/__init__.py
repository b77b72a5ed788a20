"""Lowering as scripts of ExecuTorch call it: with its order of arguments, defaults and names of nodes."""
