"""`edgecore doctor` and the versions that it prints; `tests/plugin/diagnosis/test_doctor.py` has its findings."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version

from command_line import one_sentence

from edgecore.devtools.track import processor
from edgecore.plugin.diagnosis import doctor


def test_doctor_of_a_backend_that_is_not_installed_says_so_in_one_sentence(edgecore):
    one_sentence(edgecore("doctor", "foo"), "no package is known for it")


def test_doctor_begins_with_the_versions_that_a_report_of_a_bug_needs(edgecore, monkeypatch):
    monkeypatch.setattr(doctor, "diagnose", lambda name, seconds: [])
    needed = {"edgecore": version("edgecore"), "torch": version("torch"), "python": platform.python_version()}
    first, *_ = edgecore("doctor", "foo").out.splitlines()
    assert all(f"{name} {number}" in first for name, number in needed.items()) and platform.machine() in first
    assert f"processor {processor()}" in first
    found = json.loads(edgecore("doctor", "foo", "--json").out)["versions"]
    assert needed.items() <= found.items()
