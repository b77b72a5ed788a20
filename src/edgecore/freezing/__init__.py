"""Hooks for PyInstaller, which finds this package by the entry point `hook-dirs` of the group `pyinstaller40`."""

from __future__ import annotations

from pathlib import Path


def hook_dirs() -> list[str]:
    """Return the folder that contains `hook-edgecore.py`."""
    return [str(Path(__file__).absolute().parent)]
