"""The pages about other tools say what the heads of the scripts say, and the tests that they name exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "findings").glob("*.sh"))


def test_the_pages_are_those_of_the_heads():
    command = [sys.executable, ROOT / "tools" / "make_findings_page.py", "--check"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_is_short_pins_its_packages_and_runs_without_edgecore(script):
    text = script.read_text("utf-8")
    assert len(text.splitlines()) <= 80
    (packages,) = re.findall(r'"\$here/environment" "\$folder" (.*)\)', text)
    assert all("==" in package and "edgecore" not in package for package in packages.split())
    code = text[text.index("set -eu") :]
    assert "edgecore" not in code


def test_the_helpers_of_scripts_run_without_edgecore():
    helpers = sorted((ROOT / "findings" / "helpers").glob("*.py"))
    assert helpers and all("edgecore" not in helper.read_text("utf-8") for helper in helpers)


def test_the_tests_that_guard_edgecore_exist():
    guards = re.findall(r"`([\w./-]+\.py)`", (ROOT / "docs" / "findings.md").read_text("utf-8"))
    assert [path for path in guards if not (ROOT / path).exists()] == []
