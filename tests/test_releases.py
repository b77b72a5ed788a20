"""What a release publishes: the page about it has the platforms of plugins.toml, and every package is complete."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

if sys.version_info < (3, 11):
    pytest.skip("tools/release reads plugins.toml with Python 3.11's tomllib", allow_module_level=True)

import tomllib

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("manylinux_{}_x86_64", "manylinux_{}_aarch64", "musllinux_1_2_x86_64", "musllinux_1_2_aarch64")


def platforms() -> dict[str, list[str]]:
    entries = tomllib.loads((ROOT / "plugins.toml").read_text(encoding="utf-8"))
    return {f"edgecore-{name}": entry["platforms"] for name, entry in entries.items()}


def test_the_page_about_releases_has_the_platforms_of_each_plugin():
    rows = re.findall(r"^\| (edgecore[\w-]*) \|(.*)\|$", (ROOT / "docs/releases.md").read_text(), re.MULTILINE)
    documented = {}
    for name, text in rows:
        cells = [cell.strip() for cell in text.split("|")]
        tags = [
            column.format(cell.removeprefix("glibc ").replace(".", "_"))
            for column, cell in zip(COLUMNS, cells, strict=False)
            if cell != "no"
        ]
        documented[name] = ["any"] if cells[0] == "any" else tags
    assert documented.pop("edgecore") == [column.format("2_28") for column in COLUMNS]
    assert {name: sorted(tags) for name, tags in documented.items()} == {
        name: sorted(tags) for name, tags in platforms().items()
    }


def test_the_packages_that_every_model_needs_are_for_every_platform():
    """The core runs where these run: without one of them, a user of that platform has nothing to install."""
    for name in ("edgecore-xnnpack", "edgecore-llm"):
        assert platforms()[name] == [column.format("2_28") for column in COLUMNS]


@pytest.fixture
def modules(monkeypatch):
    """A function that imports a module of tools/release; the test's other imports do not find them afterwards."""
    pytest.importorskip("ziglang", reason="installed by make wheels")
    pytest.importorskip("auditwheel")
    for folder in ("release", "cross"):
        monkeypatch.syspath_prepend(str(ROOT / "tools" / folder))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def packages(modules, monkeypatch, tmp_path):
    """The modules of tools/release over an empty folder, for two packages."""
    wanted = {"edgecore": ["manylinux_2_28_x86_64", "musllinux_1_2_aarch64"], "edgecore-pure": ["any"]}
    for name in ("artifacts", "checks"):
        monkeypatch.setattr(modules(name), "PLATFORMS", wanted)
        monkeypatch.setattr(modules(name), "PUBLISH", tmp_path)
    return modules("checks"), tmp_path


def test_a_release_without_a_wheel_or_an_sdist_is_refused(packages):
    checks, folder = packages
    for name in (
        "edgecore-0.1.0-cp310-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "edgecore-0.1.0-cp311-cp311-musllinux_1_2_aarch64.whl",
        "edgecore_pure-0.1.0-py3-none-any.whl",
        "edgecore-0.1.0.tar.gz",
        "edgecore_pure-0.1.0.tar.gz",
    ):
        (folder / name).touch()
    checks.check_complete()
    (folder / "edgecore-0.1.0-cp311-cp311-musllinux_1_2_aarch64.whl").unlink()
    (folder / "edgecore_pure-0.1.0.tar.gz").unlink()
    with pytest.raises(SystemExit, match="edgecore for musllinux_1_2_aarch64, the sdist of edgecore-pure"):
        checks.check_complete()


def test_a_wheel_for_all_pythons_whose_extension_needs_a_newer_one_is_refused(packages):
    checks, _ = packages
    result = {"non_abi3_symbols": [], "future_abi3_objects": {"PyObject_GetBuffer": "3.11"}}
    report = {"specs": {"edgecore.whl": {"kind": "wheel", "wheel": [{"name": "_runtime.abi3.so", "result": result}]}}}
    checks.check_stable(report)
    result["future_abi3_objects"]["PyType_GetName"] = "3.11"
    with pytest.raises(SystemExit, match=r"_runtime.abi3.so of edgecore.whl uses PyType_GetName, which"):
        checks.check_stable(report)


def test_files_run_under_each_python_of_the_machine_that_starts(modules, monkeypatch, tmp_path):
    """A machine need not have each version, and a command of pyenv fails for a version that is not selected."""
    for version, status in {"3.9": 0, "3.12": 127, "3.13": 0, "3.11": 0}.items():
        command = tmp_path / f"python{version}"
        command.write_text(f"#!/bin/sh\nexit {status}\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert modules("installation").pythons_here() == ["3.11", "3.13"]
