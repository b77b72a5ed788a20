"""Diagnose installed backends without risk to this process."""
