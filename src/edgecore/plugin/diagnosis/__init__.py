"""Diagnose installed backends in child processes, so that a broken package cannot crash this process."""
