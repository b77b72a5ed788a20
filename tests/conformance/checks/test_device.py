"""The suite against the device for tests: it passes, and faults in device memory are found and named."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from device_package import device_folder, device_package  # noqa: F401

from edgecore.conformance import run


@pytest.mark.full
def test_a_device_that_keeps_state_passes(device_package):  # noqa: F811
    report = run("device", options={"hold_state": True}, quick=True)
    assert report.ok, str(report)
    skipped = {row.name for row in report.rows if row.outcome == "skipped"}
    skipped -= {
        row.name for row in report.rows if row.name.startswith("priority/with ")
    }  # depends on the other backend
    assert skipped == {"values/equal to eager", "declarations/blob graph"}
    details = {row.name: row.detail for row in report.rows}
    assert details["device/copies"] == (
        "copies: 5 in a run of two delegates; 3, 2, 2, 2, 2, 2 in steps of a running total; 4, 3, 3, 3, 3, 3 in steps of rows "
        "of a matrix"
    )


FAULTS = {
    "deaf": (
        "between delegates",
        ["values between delegates, run 0", "calls buffer_flush and buffer_unmap before execute"],
    ),
    "first-shapes": ("dynamic sizes", ["size 2", "Take sizes from the shapes of the last prepare"]),
    "early": ("pending executions", ["pending, run 0", "an execution uses the buffer"]),
    "old-buffers": (
        "resident state",
        ["a running total, step ", "must use the buffers that it is given in this call"],
    ),
    "kinds": ("copies", ["copies 8 times instead of 5 times", "Return the same memory_kind"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_device_memory_is_found(device_package, monkeypatch, fault):  # noqa: F811
    monkeypatch.setenv("EDGECORE_DEVICE_FAULT", fault)
    check, words = FAULTS[fault]
    (row,) = run("device", only=f"device/{check}", quick=True).rows
    assert row.outcome == "failed", row
    assert all(word in row.detail for word in words), row.detail
