from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from edgecore.errors import BackendNotFound
from edgecore.plugin.diagnosis.doctor import diagnose

INCLUDE = Path(__file__).parents[3] / "runtime_cpp" / "include"
TABLE = """
#include "edgecore/backend.h"
static edgecore_backend table = {{sizeof(edgecore_backend), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR}};
const edgecore_backend *edgecore_backend_v0(void) {
  table.backend_id.data = "%s";
  table.backend_id.size = %d;
  return &table;
}
"""


def finding(check, name="fake"):
    (diagnosis,) = diagnose(name)
    return next(row for row in diagnosis.findings if row.check == check)


def build(tmp_path, source):
    (tmp_path / "fake.c").write_text(source)
    library = tmp_path / "libfake.so"
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang-16")
    subprocess.run([compiler, "-shared", "-fPIC", f"-I{INCLUDE}", "-o", library, tmp_path / "fake.c"], check=True)
    return f"lambda: Path({str(library)!r})"


def with_table(tmp_path, backend_id="FakeBackend"):
    return build(tmp_path, TABLE % (backend_id, len(backend_id)))


def test_a_sound_library_has_an_interface_version(add_package, tmp_path):
    add_package("edgecore-fake", "FakeBackend", library=with_table(tmp_path))
    found = finding("native library")
    assert found.ok
    assert "interface 0." in found.detail


def test_a_library_of_another_backend_is_named(add_package, tmp_path):
    add_package("edgecore-fake", "FakeBackend", library=with_table(tmp_path, "OtherBackend"))
    found = finding("native library")
    assert not found.ok
    assert "is the library of OtherBackend" in found.detail


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        ("lambda: Path('/nowhere/libfake.so')", "/nowhere/libfake.so does not exist"),
        ("lambda: Path('libfake.so')", "libfake.so is not an absolute path"),
        ("lambda: 1 / 0", "ZeroDivisionError"),
        ("lambda: Path(__file__)", "does not load"),
        ("lambda: Path(__file__), load_options=lambda: 1 / 0", "load_options() raised ZeroDivisionError"),
    ],
)
def test_a_library_that_is_missing_or_does_not_load_is_explained(add_package, library, reason):
    add_package("edgecore-fake", "FakeBackend", library=library)
    found = finding("native library")
    assert not found.ok
    assert reason in found.detail
    assert found.remedy == "pip install --force-reinstall --no-deps edgecore-fake"


def test_an_editable_package_is_installed_again_from_its_folder(add_package, tmp_path):
    add_package("edgecore-fake", "FakeBackend", library="lambda: Path('/nowhere/libfake.so')")
    origin = '{"url": "file:///home/me/my%20code/edgecore-fake", "dir_info": {"editable": true}}'
    (tmp_path / "edgecore_fake-1.2.dist-info" / "direct_url.json").write_text(origin)
    wanted = "pip install --force-reinstall --no-deps --editable '/home/me/my code/edgecore-fake'"
    assert finding("native library").remedy == wanted


def test_a_library_without_the_entry_symbol_is_reported(add_package, tmp_path):
    add_package("edgecore-fake", "FakeBackend", library=build(tmp_path, "int other;"))
    assert "edgecore_backend_v0" in finding("native library").detail


def test_a_library_that_kills_its_process_is_reported(add_package, tmp_path):
    source = "#include <stdlib.h>\n__attribute__((constructor)) static void die(void) { abort(); }"
    add_package("edgecore-fake", "FakeBackend", library=build(tmp_path, source))
    assert "dies of signal 6" in finding("native library").detail


def test_a_failed_row_of_a_self_test_has_its_own_remedy_or_an_update(add_package):
    rows = "[('power', True, 'on'), ('chip', False, 'none', 'insert a chip'), ('core', False, 'wrong')]"
    add_package("edgecore-fake", "FakeBackend", library=f"None, self_test=lambda: {rows}")
    remedies = [finding(check).remedy for check in ("power", "chip", "core")]
    assert remedies == ["", "insert a chip", "pip install --upgrade edgecore-fake"]


def test_a_broken_package_is_found_by_its_name(add_package):
    add_package("edgecore-bad", "BadBackend", "raise OSError('no driver')")
    found = finding("import and hook", "bad")
    assert not found.ok
    assert "no driver" in found.detail
    assert found.remedy


def test_a_hook_that_edgecore_does_not_have_is_named(add_package):
    source = """
        from edgecore.plugin import BackendInfo, hookimpl

        @hookimpl
        def edgecore_backends():
            return [BackendInfo(name={name!r}, backend_id={backend_id!r}, summary="", compiler="a:b")]

        @hookimpl
        def edgecore_bakends():
            return []
    """
    add_package("edgecore-fake", "FakeBackend", source)
    found = finding("import and hook")
    assert not found.ok
    assert "edgecore_bakends" in found.detail


def test_two_packages_for_one_backend_are_reported_by_doctor(add_package):
    add_package("edgecore-fake", "FakeBackend")
    add_package("vendor-fake", "FakeBackend")
    for diagnosis in diagnose("FakeBackend"):
        row = next(row for row in diagnosis.findings if row.check == "provider")
        assert not row.ok
        assert row.remedy == f"export EDGECORE_PROVIDER_FAKEBACKEND={diagnosis.backend.distribution}"


def test_a_package_that_was_disabled_on_purpose_is_no_problem(add_package, monkeypatch):
    add_package("edgecore-fake", "FakeBackend")
    monkeypatch.setenv("EDGECORE_BACKENDS_DENY", "FakeBackend")
    (diagnosis,) = diagnose("fake")
    assert diagnosis.ok


def test_a_declaration_that_nobody_could_use_is_reported(add_package):
    add_package("edgecore-fake", "FakeBackend", name="Fake Backend")
    found = finding("declaration", "FakeBackend")
    assert not found.ok
    assert "'Fake Backend'" in found.detail


def test_a_name_that_is_not_installed_is_an_error(add_package):
    with pytest.raises(BackendNotFound, match="'foo' is not installed, and no package is known"):
        diagnose("foo")
