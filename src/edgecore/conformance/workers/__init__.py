"""Processes and devices that run checks. A crash or a hang of a backend ends one of the processes, not the suite."""
