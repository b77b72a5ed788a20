"""Arm's compiler Vela: its targets, configuration files and flags, its two interfaces, and its estimates.

`regor_process` runs in a child process that must start fast, so this file imports nothing.
"""
