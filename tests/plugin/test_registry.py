from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

import edgecore
from edgecore.errors import BackendAmbiguous, BackendBroken, BackendDisabled, BackendNotFound
from edgecore.plugin import registry

RAISING = """
    raise OSError("libvendor.so.3: cannot open shared object file")
"""
EXITING = """
    raise SystemExit("no licence")
"""
WRONG_HOOK = """
    from edgecore.plugin import hookimpl

    @hookimpl
    def edgecore_bakends():
        return []
"""
NO_HOOK = """
    answer = 42
"""
WRONG_TYPE = """
    from edgecore.plugin import hookimpl

    @hookimpl
    def edgecore_backends():
        return ["FakeBackend"]
"""


def state_of(backend_id):
    return next(backend for backend in registry.installed() if backend.backend_id == backend_id)


def test_find_imports_only_the_package_asked_for(add_package):
    wanted = add_package("edgecore-fake", "FakeBackend")
    other = add_package("edgecore-other", "OtherBackend", RAISING)
    info = registry.find("FakeBackend")
    assert (info.name, info.backend_id) == ("fake", "FakeBackend")
    assert wanted in sys.modules
    assert other not in sys.modules


def test_a_backend_is_found_by_name_and_by_id(add_package):
    add_package("edgecore-fake", "FakeBackend")
    assert registry.find_by_name("fake") is registry.find_by_name("FakeBackend") is registry.find("FakeBackend")


def test_all_backends_are_listed_with_their_state(add_package):
    add_package("edgecore-fake", "FakeBackend")
    add_package("edgecore-bad", "BadBackend", RAISING)
    good, bad = state_of("FakeBackend"), state_of("BadBackend")
    assert (good.state, good.name, good.distribution, good.version) == ("ok", "fake", "edgecore-fake", "1.2")
    assert bad.state == "broken"
    assert "OSError: libvendor.so.3: cannot open shared object file" in bad.problem


def test_a_broken_backend_gives_one_warning_and_nothing_worse(add_package):
    add_package("edgecore-fake", "FakeBackend")
    add_package("edgecore-bad", "BadBackend", RAISING)
    with pytest.warns(RuntimeWarning, match="edgecore-bad 1.2 is broken.*edgecore doctor") as caught:
        found = edgecore.backends()
    assert len(caught) == 1
    assert {"FakeBackend", "BadBackend"} <= {backend.backend_id for backend in found}


def test_using_the_good_one_does_not_warn_about_the_broken_one(add_package):
    add_package("edgecore-fake", "FakeBackend")
    add_package("edgecore-bad", "BadBackend", RAISING)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        registry.find_by_name("fake")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (RAISING, "OSError: libvendor.so.3"),
        (EXITING, "SystemExit: no licence"),
        (WRONG_HOOK, "edgecore_bakends"),
        (NO_HOOK, "implements no hook edgecore_backends"),
        (WRONG_TYPE, "returned a str, not a BackendInfo"),
        ("import torhc", "No module named 'torhc'"),
        ("def", "SyntaxError"),
    ],
)
def test_a_broken_package_is_reported_with_its_reason(add_package, source, reason):
    add_package("edgecore-bad", "BadBackend", source)
    with pytest.raises(BackendBroken, match="backend 'BadBackend' of edgecore-bad 1.2 is broken") as caught:
        registry.find("BadBackend")
    assert reason in str(caught.value)
    with pytest.raises(BackendBroken):
        registry.find_by_name("bad")


def test_an_entry_point_and_a_hook_that_disagree_are_an_error(add_package):
    add_package("edgecore-fake", "FakeBackend", hook_id="OtherBackend")
    with pytest.raises(BackendBroken, match="entry point is named 'FakeBackend' but its hook .* returned OtherBackend"):
        registry.find("FakeBackend")


def test_a_known_backend_names_the_package_to_install(monkeypatch):
    monkeypatch.setattr(registry, "scan", list)  # as if no backend were installed
    for name in ("openvino", "OpenvinoBackend"):
        with pytest.raises(BackendNotFound, match=rf"'{name}' .*is not installed; run: pip install edgecore-openvino$"):
            registry.find_by_name(name)


def test_a_backend_that_nobody_knows_is_reported_with_those_installed(add_package):
    add_package("edgecore-fake", "FakeBackend")
    message = r"'nothing' is not installed, and no package is known for it; installed are: .*\bfake\b"
    with pytest.raises(BackendNotFound, match=message):
        registry.find_by_name("nothing")
    with pytest.raises(BackendNotFound, match="'FooBackend' is not installed, and no package is known for it"):
        registry.find("FooBackend")


@pytest.mark.parametrize(
    "entry", ["FakeBackend", "fakebackend", "edgecore-fake", "edgecore_fake", " x , Edgecore.Fake"]
)
def test_a_denied_package_is_disabled_and_not_imported(add_package, monkeypatch, entry):
    module = add_package("edgecore-fake", "FakeBackend")
    monkeypatch.setenv("EDGECORE_BACKENDS_DENY", entry)
    with pytest.raises(BackendDisabled, match="edgecore-fake is disabled by .*EDGECORE_BACKENDS_DENY"):
        registry.find("FakeBackend")
    assert state_of("FakeBackend").state == "disabled"
    assert module not in sys.modules


def test_packages_that_are_not_allowed_are_disabled(add_package, monkeypatch):
    add_package("edgecore-fake", "FakeBackend")
    add_package("edgecore-other", "OtherBackend", name="other")
    monkeypatch.setenv("EDGECORE_BACKENDS_ALLOW", "OtherBackend")
    assert registry.find("OtherBackend").name == "other"
    with pytest.raises(BackendDisabled, match="EDGECORE_BACKENDS_ALLOW"):
        registry.find("FakeBackend")


class TestTwoPackagesForOneId:
    @pytest.fixture(autouse=True)
    def _two(self, add_package, monkeypatch):
        monkeypatch.delenv("EDGECORE_PROVIDER_FAKEBACKEND", raising=False)
        add_package("edgecore-fake", "FakeBackend", name="fake")
        add_package("vendor-fake", "FakeBackend", name="vendor")

    def test_a_backend_of_two_packages_is_an_error_that_shows_the_choice(self):
        with pytest.raises(BackendAmbiguous, match="provided by edgecore-fake and vendor-fake") as caught:
            registry.find("FakeBackend")
        assert 'providers={"FakeBackend": "edgecore-fake"}' in str(caught.value)
        assert "EDGECORE_PROVIDER_FAKEBACKEND=edgecore-fake" in str(caught.value)

    def test_both_packages_of_one_backend_are_listed_as_ambiguous(self):
        both = [backend for backend in registry.installed() if backend.backend_id == "FakeBackend"]
        assert [backend.distribution for backend in both] == ["edgecore-fake", "vendor-fake"]
        assert all(backend.ambiguous for backend in both)

    def test_an_argument_chooses_between_two_packages(self):
        assert registry.find("FakeBackend", providers={"FakeBackend": "Vendor_Fake"}).name == "vendor"

    def test_an_environment_variable_chooses_between_two_packages(self, monkeypatch):
        monkeypatch.setenv("EDGECORE_PROVIDER_FAKEBACKEND", "vendor-fake")
        assert registry.find("FakeBackend").name == "vendor"
        assert not any(backend.ambiguous for backend in registry.installed())

    def test_denying_one_of_two_packages_chooses_the_other(self, monkeypatch):
        monkeypatch.setenv("EDGECORE_BACKENDS_DENY", "edgecore-fake")
        assert registry.find("FakeBackend").name == "vendor"

    def test_choosing_a_package_that_is_not_there_is_an_error(self):
        with pytest.raises(BackendNotFound, match="edgecore-fake and vendor-fake, not by edgecore-x, which was chosen"):
            registry.find("FakeBackend", providers={"FakeBackend": "edgecore-x"})


def test_a_compiler_that_cannot_be_imported_is_reported(add_package):
    add_package("edgecore-fake", "FakeBackend")
    with pytest.raises(BackendBroken, match=r"compiler of backend 'fake' \(nowhere:Nothing\)"):
        registry.load_compiler(registry.find("FakeBackend"))


# These take longer to import than a small file takes to load.
HEAVY = (
    *("torch", "numpy", "pydantic", "typer", "rich", "jinja2", "pluggy", "tomllib", "tomli"),
    *("importlib.metadata", "dataclasses", "typing", "pathlib", "inspect", "re", "enum", "contextlib", "collections"),
)
LIGHT = """
    from edgecore.plugin import BackendInfo, hookimpl

    @hookimpl
    def edgecore_backends():
        return [BackendInfo(name={name!r}, backend_id={backend_id!r}, summary="a fake", compiler="nowhere:Nothing")]
"""


def test_finding_a_backend_imports_nothing_heavy(add_package):
    """The path that loading a file takes."""
    add_package("edgecore-fake", "FakeBackend", LIGHT)
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
import edgecore, edgecore.runtime
from edgecore.plugin import registry
registry.find("FakeBackend")
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    result = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.strip()) == (0, "[]"), result.stderr
