"""The package as edgecore finds it: the delegate's library, and the rows of `edgecore doctor`."""

from __future__ import annotations

from pathlib import Path

from edgecore_ethosu import backend


def test_doctor_lists_vela_and_the_simulator(monkeypatch):
    rows = {check: detail for check, passed, detail, _ in backend.self_test() if passed}
    assert rows["Vela"].startswith("5.") and rows["TOSA simulator"]
    monkeypatch.setattr(backend, "installed", lambda package: None)
    vela, simulator = backend.self_test()
    assert vela[2] == "not installed; only compiling needs it" and "workstation" in simulator[2]


def test_the_delegate_links_neither_vela_nor_the_simulator():
    assert Path(backend.native_library()).stat().st_size < 1_000_000
