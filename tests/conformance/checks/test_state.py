"""Faults in the state of the device for tests, which the suite finds and names; a backend without state skips."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from device_package import device_folder, device_package  # noqa: F401

from edgecore.conformance import run

FAULTS = {
    "zeros": (
        "initial values",
        ["first session", "must give a buffer that the set does not have yet its initial values"],
    ),
    # Session 0 sees the initial values that session 1 gives at its first call, when its methods are loaded.
    "shared": ("sessions", ["session 0, step 2", "Keep mutable buffers in the state set only"]),
    "no-reset": ("reset", ["after reset 1, step 0", "reset must give all buffers of the set their initial values"]),
    "half-export": (
        "export and import",
        ["in another process after the import", "export_state must write the whole content"],
    ),
    "hidden": (
        "damaged states",
        ["a state that is of another model is imported", "state_describe must name each buffer"],
    ),
    "own-names": ("methods", ["methods in turn", "must use the same memory of the set"]),
    "own-key": ("initial values in a .ptd", ["puts nothing into a .ptd file", "Ask host->named_data"]),
    "early": ("pending executions", ["pending, step 0", "an execution uses the buffer"]),
}


def outcome(check, fault, monkeypatch):
    monkeypatch.setenv("EDGECORE_DEVICE_FAULT", fault)
    (row,) = [
        row
        for row in run("device", options={"hold_state": True}, only=f"state/{check}", quick=True).rows
        if row.name == f"state/{check}"
    ]
    return row


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_state_is_found(device_package, monkeypatch, fault):  # noqa: F811
    check, words = FAULTS[fault]
    row = outcome(check, fault, monkeypatch)
    assert row.outcome == "failed", row
    assert all(word in row.detail for word in words), row.detail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "fault", "words"),
    [
        ("failed run", "no-reset", "first run after a failed run and a reset"),
        ("threads", "shared", "two sessions at once"),
    ],
)
def test_a_fault_is_found_by_other_checks_too(device_package, monkeypatch, check, fault, words):  # noqa: F811
    row = outcome(check, fault, monkeypatch)
    assert row.outcome == "failed" and words in row.detail, row


@pytest.mark.slow
def test_a_backend_that_claims_no_buffer_skips(device_package):  # noqa: F811
    rows = run("device", only="state/", quick=True).rows
    assert len(rows) == 10 and {row.outcome for row in rows} == {"skipped"}
    assert all("it keeps no buffer of the suite's models" in row.detail for row in rows)
