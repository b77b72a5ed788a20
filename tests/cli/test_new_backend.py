"""Names and folders that `edgecore new-backend` refuses. What it writes: tests/native/test_new_backend.py."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgecore.cli.new_backend import render


def new_backend(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgecore.cli", "new-backend", name, "--into", folder]
    return subprocess.run([*map(str, command)], capture_output=True, text=True)


@pytest.mark.parametrize("name", ["Acme", "9acme", "acme--npu", "acme-", "a" * 33, "ac.me", "../acme", "acmé"])
def test_a_bad_name(tmp_path, name):
    done = new_backend(name, tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert f"{name!r} is no name for a backend" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_name_of_the_package_instead_of_the_backend(tmp_path):
    assert "edgecore new-backend acme" in new_backend("edgecore-acme", tmp_path).stderr


def test_a_folder_that_exists_stays_as_it_is(tmp_path):
    (tmp_path / "edgecore-acme").mkdir()
    assert "exists already" in new_backend("acme", tmp_path).stderr
    assert not list((tmp_path / "edgecore-acme").iterdir())


def test_a_name_that_an_installed_backend_has(tmp_path):
    pytest.importorskip("edgecore_xnnpack")
    assert "has a backend xnnpack already" in new_backend("xnnpack", tmp_path).stderr


def test_every_name_makes_identifiers():
    files = render("my-chip_2")
    assert "src/edgecore_my_chip_2/compiler.py" in files
    assert 'MyChip2Backend = "edgecore_my_chip_2"' in files["pyproject.toml"]
    assert 'name = "edgecore-my-chip_2"' in files["pyproject.toml"]
    assert 'MAGIC = b"MY_CHIP_"' in files["src/edgecore_my_chip_2/blob.py"]
    assert "'M', 'Y', '_', 'C', 'H', 'I', 'P', '_'" in files["native/src/blob.cpp"]
    for path, text in files.items():
        if path.endswith(".py"):
            compile(text, path, "exec")
        assert not re.search(r"@\w+@", text), path
