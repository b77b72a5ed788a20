"""Names that are deprecated or experimental, and names that are imported when they are read."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

import pytest

from edgecore.stability import deprecated, experimental, lazy_names, public_names


def test_a_deprecated_function_warns_at_its_caller_and_works():
    @deprecated(use="edgecore.sdk.edit", since="0.2")
    def old(value):
        """Add one."""
        return value + 1

    with pytest.warns(
        DeprecationWarning, match=r"old is deprecated since edgecore 0\.2; use edgecore\.sdk\.edit"
    ) as seen:
        assert old(1) == 2
    assert seen[0].filename == __file__
    assert old.__doc__ == "Add one."


def test_a_deprecated_name_of_a_package_warns_at_its_reader_and_gives_the_new_one():
    read = lazy_names("acme", {"Path": "pathlib"}, deprecated={"Folder": ("Path", "0.2")})
    with pytest.warns(
        DeprecationWarning, match=r"acme\.Folder is deprecated since edgecore 0\.2; use acme\.Path"
    ) as seen:
        assert read("Folder") is Path
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read("Path") is Path


def test_one_table_gives_the_names_of_a_package_and_imports_them():
    names, read = public_names("acme", {"pathlib": "Path PurePath", "json": "dumps"}, {"Folder": ("Path", "0.2")})
    assert names == ["Path", "PurePath", "dumps"]
    assert read("Path") is Path
    with pytest.warns(DeprecationWarning, match=r"acme\.Folder is deprecated"):
        assert read("Folder") is Path
    with pytest.raises(AttributeError, match="module 'acme' has no attribute 'loads'"):
        read("loads")


def test_an_experimental_function_says_so_in_its_help():
    @experimental
    def new():
        """Do something."""

    assert new.__experimental__
    assert inspect.getdoc(new) == "Do something.\n\nExperimental: may change in any release."
