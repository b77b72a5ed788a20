"""The scan of entry points, beside importlib.metadata."""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata
from importlib.metadata import DistributionFinder, PathDistribution

import pluggy
import pytest

from edgecore.plugin import hookspecs, registry
from edgecore.plugin.installed import entry_points

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: of the description\n"


def package(
    folder, name="vendor", version="1.0", entry_points="[edgecore.backends]\nVendorBackend = vendor\n", kind=None
):
    info = folder / (kind or f"{name}-{version}.dist-info")
    info.mkdir(parents=True)
    (info / ("PKG-INFO" if info.suffix == ".egg-info" else "METADATA")).write_text(
        METADATA.format(name=name, version=version)
    )
    (info / "entry_points.txt").write_text(entry_points)


def both():
    """(backend id, value, version) as we find them and as importlib.metadata does."""
    ours = [(row.name, row.value, row.version) for row in entry_points.scan()]
    theirs = [(row.name, row.value, row.dist.version) for row in metadata.entry_points(group=entry_points.GROUP)]
    return ours, theirs


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A sys.path of two empty folders."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setattr(sys, "path", [*map(str, folders), str(tmp_path / "nowhere")])
    return folders


def test_the_scan_finds_what_importlib_metadata_finds_here():
    ours, theirs = both()
    assert ours == theirs


def test_the_first_distribution_of_a_name_on_the_path_wins(path):
    package(path[0], name="Some_Vendor", version="1.0")
    package(path[1], name="some.vendor", version="2.0")
    ours, theirs = both()
    assert ours == theirs == [("VendorBackend", "vendor", "1.0")]
    assert entry_points.scan()[0].distribution == "some-vendor"


def test_a_distribution_without_backends_hides_a_later_one_of_its_name(path):
    package(path[0], entry_points="")
    package(path[1])
    ours, theirs = both()
    assert ours == theirs == []


@pytest.mark.parametrize("kind", ["vendor.egg-info", "vendor-1.0-py3.11.egg-info", "vendor-1.0.egg/EGG-INFO"])
def test_old_kinds_of_packages_are_found(path, kind):
    package(path[0], kind=kind)
    sys.path.append(str(path[0] / "vendor-1.0.egg"))
    ours, theirs = both()
    assert ours == theirs == [("VendorBackend", "vendor", "1.0")]


def test_a_package_in_a_zip_file_is_found(path, tmp_path):
    with zipfile.ZipFile(tmp_path / "vendor.zip", "w") as file:
        file.writestr("vendor-1.0.dist-info/METADATA", METADATA.format(name="vendor", version="1.0"))
        file.writestr("vendor-1.0.dist-info/entry_points.txt", "[edgecore.backends]\nVendorBackend = vendor\n")
    sys.path.append(str(tmp_path / "vendor.zip"))
    ours, theirs = both()
    assert ours == theirs == [("VendorBackend", "vendor", "1.0")]


def test_a_package_that_a_custom_importer_provides_is_found(path, tmp_path, monkeypatch):
    package(tmp_path / "hidden")

    class Finder(DistributionFinder):
        def find_spec(self, *_):
            return None

        def find_distributions(self, *_):
            return [PathDistribution(tmp_path / "hidden" / "vendor-1.0.dist-info")]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    ours, theirs = both()
    assert ours == theirs == [("VendorBackend", "vendor", "1.0")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# [edgecore.backends]\n[console_scripts]\nA = a\n", []),
        ("[x]\nA = a\n[edgecore.backends]\n# B = b\n\n  C=c : d.e [extra]\nD = d\n[y]\nE = e", ["C", "D"]),
        ("[edgecore.backends]\r\nA = a\r\n", ["A"]),
        ("[edgecore.backends.more]\nA = a\n", []),
    ],
)
def test_variants_of_the_format_of_entry_points_are_read(path, text, expected):
    package(path[0], entry_points=text)
    ours, theirs = both()
    assert [name for name, *_ in ours] == [name for name, *_ in theirs] == expected


def test_a_file_that_is_no_text_concerns_its_package_only(path):
    package(path[0])
    (path[0] / "other-1.0.dist-info").mkdir()
    (path[0] / "other-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe")
    assert [row.name for row in entry_points.scan()] == ["VendorBackend"]


def test_an_entry_point_that_names_an_object_is_read(path):
    package(path[0], entry_points="[edgecore.backends]\nVendorBackend = vendor_objects : Plugins.first [extra]\n")
    (path[0] / "vendor_objects.py").write_text("class Plugins:\n    first = 42\n")
    assert entry_points.scan()[0].load() == 42


class TestPluggy:
    """Our marker and pluggy's are the same to both sides."""

    def test_pluggy_takes_a_plugin_that_our_marker_marks(self, add_package):
        add_package("edgecore-fake", "FakeBackend")
        manager = pluggy.PluginManager("edgecore")
        manager.add_hookspecs(hookspecs)
        manager.register(next(row for row in entry_points.scan() if row.name == "FakeBackend").load())
        manager.check_pending()
        ((info,),) = manager.hook.edgecore_backends()
        assert info.backend_id == "FakeBackend"
        assert "name='fake', backend_id='FakeBackend'" in repr(info)

    def test_edgecore_takes_a_plugin_that_pluggy_marks(self, add_package):
        source = """
            import pluggy
            from edgecore.plugin import BackendInfo

            @pluggy.HookimplMarker("edgecore")
            def edgecore_backends():
                return [BackendInfo(name={name!r}, backend_id={backend_id!r}, summary="", compiler="a:b")]
        """
        add_package("edgecore-fake", "FakeBackend", source)
        assert registry.find("FakeBackend").name == "fake"
