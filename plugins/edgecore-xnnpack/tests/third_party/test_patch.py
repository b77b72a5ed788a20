"""Patches of XNNPACK's sources."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest


def test_a_patch_that_does_not_fit_is_refused(script: ModuleType, tmp_path: Path) -> None:
    patch = next(patch for patch in script.XNNPACK_PATCHES if patch.old not in patch.new)  # fits once
    file = tmp_path / patch.path
    file.parent.mkdir(parents=True)
    file.write_text(f"before\n{patch.old}after\n")
    script.apply([patch], tmp_path)
    assert file.read_text() == f"before\n{patch.new}after\n"
    with pytest.raises(ValueError, match=f"{file.name} is not the file"):
        script.apply([patch], tmp_path)
