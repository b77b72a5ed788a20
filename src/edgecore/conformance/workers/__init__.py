"""Processes and devices that run checks: a crash or a hang of a backend ends one of them, not the suite."""
