"""Use Arm's compiler Vela: targets, configuration files, flags, the compilation itself, and Vela's estimates.

`regor_process` runs in a child process that must start fast, so this `__init__` imports nothing.
"""
