"""What the suite makes of a run, for people and machines; pytest; names that do not exist."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from edgecore.conformance import Report, Row

ROWS = [
    Row("operators/aten.add.Tensor", "operators", "passed", "8 of 8 calls taken", 0.25),
    Row("operators/aten.mul.Tensor", "operators", "failed", "values differ \x01 & more " + "word " * 40, 0.5),
    Row("blobs/bit flips", "blobs", "skipped", "it declares NEEDS_TRUSTED_BLOBS", 0.0),
]


def test_the_table_names_every_check_once():
    text = str(Report("acme", ROWS))
    assert text.splitlines()[0] == "operators"
    assert "  ok      aten.add.Tensor: 8 of 8 calls taken" in text
    assert "  skipped bit flips: it declares NEEDS_TRUSTED_BLOBS" in text
    assert text.splitlines()[-1] == "acme: 1 passed, 1 failed, 1 skipped in 1 s"
    assert all(len(line) <= 120 for line in text.splitlines())
    assert text.count("word") == 40


def test_ok_needs_something_that_passed():
    assert Report("acme", ROWS[:1]).ok
    assert not Report("acme", ROWS).ok
    assert not Report("acme", ROWS[2:]).ok
    assert not Report("acme").ok


def test_junit_and_json(tmp_path):
    report = Report("acme", ROWS)
    report.to_junit(tmp_path / "report.xml")
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    cases = {case.get("name"): case for case in suite}
    assert cases["operators/aten.mul.Tensor"].find("failure").get("message").startswith("values differ ? & more")
    assert cases["blobs/bit flips"].find("skipped") is not None
    report.to_json(tmp_path / "report.json")
    content = json.loads((tmp_path / "report.json").read_text())
    assert (content["backend"], content["ok"]) == ("acme", False)
    assert [Row(**row) for row in content["rows"]] == ROWS


def run_module(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=folder, timeout=300)


def test_an_unknown_backend_is_a_sentence(tmp_path):
    done = run_module("-m", "edgecore", "conformance", "nonesuch", folder=tmp_path)
    assert done.returncode == 1
    assert "backend 'nonesuch' is not installed" in done.stderr and "Traceback" not in done.stderr


def test_pytest_runs_the_checks_as_tests(tmp_path):
    pytest.importorskip("edgecore_xnnpack")
    plugin = ("-m", "pytest", "-p", "edgecore.conformance.pytest_plugin", "-p", "no:cacheprovider", "-rs")
    if "edgecore.conformance" in entry_points():
        plugin = ("-m", "pytest", "-p", "no:cacheprovider", "-rs")
    chosen = (
        "--edgecore-backend",
        "xnnpack",
        "--edgecore-quick",
        "-k",
        "operators/aten.relu.default or metadata",
        "-v",
    )
    done = run_module(*plugin, *chosen, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 2 passed" in done.stdout


def entry_points() -> str:
    from importlib.metadata import entry_points as found

    return " ".join(point.value for point in found(group="pytest11"))


def test_the_pytest_plugin_imports_nothing_heavy(tmp_path):
    script = (
        "import sys, edgecore.conformance.pytest_plugin; print({'torch', 'numpy', 'pytest', 'json'} & set(sys.modules))"
    )
    assert run_module("-c", script, folder=tmp_path).stdout.strip() == "set()"


def test_what_counts_as_a_leak():
    """Bytes of heap that five steps of 40 loads lose: caches that fill, and leaks, also of some loads only."""
    pytest.importorskip("torch")
    from edgecore.conformance.lifetime import HEAP, SPARSE, _grows

    def leaks(growth, steps=3):
        return _grows(growth, HEAP * 40, SPARSE[0], steps)

    assert leaks([4000] * 5) and leaks([1280] * 5)  # the smallest block with each load
    assert leaks([0, 40000, 0, 40000, 40000])
    assert not leaks([0] * 5)
    assert not leaks([90000, 20000, 0, 0, 0])
    assert not leaks([1840, 944, 1536, 0, 560])  # OpenVINO
    assert not leaks(
        [800, 700, 850, 800, 790]
    )  # and while it runs, also without us: fewer bytes than loads have blocks
    assert not leaks([50000, -50000, 50000, -50000, 50000])
