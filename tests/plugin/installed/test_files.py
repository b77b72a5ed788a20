"""Files of installed packages, which backends find without importing the packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgecore.plugin import installed_file, own_library


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on sys.path with the package `vendor_sdk`, which cannot be imported."""
    library = tmp_path / "packages" / "vendor_sdk" / "lib"
    library.mkdir(parents=True)
    (library.parent / "__init__.py").write_text("raise RuntimeError('imported')")
    for name in ("libvendor.so.1.2", "libvendor.so.1.3", "libother.so"):
        (library / name).touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "packages")])
    return tmp_path / "packages"


def test_a_file_of_a_package_is_found_without_importing_the_package(packages: Path) -> None:
    library = packages / "vendor_sdk" / "lib"
    assert installed_file("vendor_sdk", "lib", "libother.so") == str(library / "libother.so")
    assert installed_file("vendor_sdk", "lib") == str(library)
    assert installed_file("vendor_sdk", "lib", "libvendor.so*") == str(library / "libvendor.so.1.3")
    assert installed_file("vendor_sdk", "lib", "libmissing.so*") is None
    assert installed_file("vendor_sdk", "bin", "tool") is None
    assert installed_file("vendor_without_package", "lib", "libother.so") is None
    assert "vendor_sdk" not in sys.modules


@pytest.mark.parametrize("entry", ["", ".", "absolute"])
def test_the_current_directory_is_not_searched(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """Not even if it comes first on sys.path, which hides the installed package from an import."""
    downloaded = tmp_path / "downloaded"
    (downloaded / "vendor_sdk" / "lib").mkdir(parents=True)
    (downloaded / "vendor_sdk" / "__init__.py").touch()
    (downloaded / "vendor_sdk" / "lib" / "libother.so").touch()
    monkeypatch.chdir(downloaded)
    monkeypatch.setattr(sys, "path", [str(downloaded) if entry == "absolute" else entry, *sys.path])
    assert installed_file("vendor_sdk", "lib", "libother.so") == str(packages / "vendor_sdk" / "lib" / "libother.so")
    (packages / "vendor_sdk" / "lib" / "libother.so").unlink()
    assert installed_file("vendor_sdk", "lib", "libother.so") is None


def test_the_own_library_is_in_one_of_several_folders_of_an_editable_installation(tmp_path: Path) -> None:
    sources, built = tmp_path / "sources", tmp_path / "built"
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    folders = [str(sources), str(built)]
    assert own_library(folders, "edgecore_vendor") == str(sources / "lib" / f"libedgecore_vendor{suffix}")
    (built / "lib").mkdir(parents=True)
    (built / "lib" / f"libedgecore_vendor{suffix}").touch()
    assert own_library(folders, "edgecore_vendor") == str(built / "lib" / f"libedgecore_vendor{suffix}")
