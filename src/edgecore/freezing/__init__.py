"""For PyInstaller, which finds this by the entry point `hook-dirs` of the group `pyinstaller40`."""

from __future__ import annotations

import os


def hook_dirs() -> list[str]:
    """The folder of `hook-edgecore.py`."""
    return [os.path.dirname(os.path.abspath(__file__))]
