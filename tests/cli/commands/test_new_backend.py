"""Names and folders that `edgecore new-backend` refuses. What it writes: tests/native/test_new_backend.py."""

from __future__ import annotations

import re

import pytest

from edgecore.cli.commands.new_backend import command, render
from edgecore.errors import EdgecoreError


@pytest.mark.parametrize("name", ["Acme", "9acme", "acme--npu", "acme-", "a" * 33, "ac.me", "../acme", "acmé"])
def test_a_bad_name_is_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(EdgecoreError, match=f"{re.escape(repr(name))} is not a valid name for a backend"):
        command(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_name_of_a_package_is_refused_with_the_name_of_its_backend(tmp_path):
    with pytest.raises(EdgecoreError, match="edgecore new-backend acme"):
        command("edgecore-acme", tmp_path)


def test_a_folder_that_exists_stays_as_it_is(tmp_path):
    (tmp_path / "edgecore-acme").mkdir()
    with pytest.raises(EdgecoreError, match="exists already"):
        command("acme", tmp_path)
    assert not list((tmp_path / "edgecore-acme").iterdir())


def test_a_name_that_an_installed_backend_has_is_refused(tmp_path):
    pytest.importorskip("edgecore_xnnpack")
    with pytest.raises(EdgecoreError, match="has a backend xnnpack already"):
        command("xnnpack", tmp_path)


def test_a_name_with_a_dash_makes_valid_identifiers():
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
