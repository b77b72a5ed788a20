"""`edgecore conformance`: names that do not exist, runners that do not start, and the exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run_module(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=folder, timeout=300)


def test_an_unknown_backend_is_a_sentence(tmp_path):
    done = run_module("-m", "edgecore", "conformance", "nonesuch", folder=tmp_path)
    assert done.returncode == 1
    assert "backend 'nonesuch' is not installed" in done.stderr and "Traceback" not in done.stderr


def test_a_runner_that_does_not_start_is_a_sentence(tmp_path):
    pytest.importorskip("edgecore_xnnpack")
    done = run_module("-m", "edgecore", "conformance", "xnnpack", "--runner", "/no/edgecore-run", folder=tmp_path)
    assert done.returncode == 1
    assert "runner: /no/edgecore-run cannot be started: " in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("outcome", ["passed", "failed"])
def test_the_exit_status_is_1_if_a_check_fails(monkeypatch, outcome):
    from typer.testing import CliRunner

    from edgecore import conformance
    from edgecore.cli.app import app

    row = conformance.Row("blobs/foreign", "blobs", outcome, "the process died", 0.1)
    monkeypatch.setattr(conformance, "run", lambda *_, **__: conformance.Report("acme", [row]))
    done = CliRunner().invoke(app, ["conformance", "acme"])
    assert done.exit_code == (outcome == "failed")
    assert ("failed: blobs/foreign" in done.stdout) == (outcome == "failed")
