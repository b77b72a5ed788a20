"""The suite with a runner, a command that starts an edgecore-run: here that of this machine."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
from device_package import device_folder, device_package  # noqa: F401
from fault_package import check, fault_folder  # noqa: F401

from edgecore.conformance import run
from edgecore.errors import EdgecoreError

EDGECORE_RUN = Path(sys.executable).with_name("edgecore-run")
native = pytest.mark.skipif(not EDGECORE_RUN.is_file(), reason="the wheel of edgecore is not installed here")


def command(library: Path) -> str:
    return shlex.join([str(EDGECORE_RUN), "--backend", str(library)])


@pytest.mark.slow
@native
def test_checks_that_a_command_can_run_pass_and_the_others_say_what_they_need(check, fault_folder):  # noqa: F811
    groups = [f"{group}/" for group in ("options", "networks", "recipes", "shapes", "methods", "lifetime", "values")]
    only = [*groups, "operators/aten.mul", "priority/kernels", "declarations/", "blobs/truncated"]
    report = check(only=only, runner=command(fault_folder / "edgecore_fault" / "libfault.so"))
    assert report.ok, str(report)
    reasons = {row.name: row.detail for row in report.rows if row.outcome == "skipped"}
    assert all(reason.startswith("a runner cannot do it: ") for reason in reasons.values()), reasons
    assert set(reasons) == {
        *("methods/several instances", "methods/threads, a model each", "methods/threads, one model"),
        *("lifetime/load and destroy", "lifetime/run", "values/equal to eager"),
        *("declarations/threads", "declarations/memory", "declarations/buffers"),
    }
    details = {row.name: row.detail for row in report.rows}
    assert details["recipes/int8-weights, linear"].endswith("; kernels of other")  # by an environment variable
    assert "this processor lacks the kernels" in details["recipes/configurations"]
    assert "rejected" in details["blobs/truncated"]


@pytest.mark.slow
@native
def test_faults_are_found_through_the_command(check, fault_folder):  # noqa: F811
    faults = {
        "wrong-int32": ("operators/aten.mul.Tensor", ["aten.mul.Tensor(int32[3, 5, 7], int32[3, 5, 7])", "differ"]),
        "crash": ("operators/aten.relu.default", ["aten.relu.default(float32[1])", "edgecore-run", "SIGABRT"]),
        "last-row": ("recipes/int8-weights, embedding", ["15 rows, result 0: 17 of 255 values differ"]),
        "unchecked-blob": ("blobs/bit flips", ["of byte", "edgecore-run", "SIGSEGV"]),
    }
    runner = command(fault_folder / "edgecore_fault" / "libfault.so")
    report = check(",".join(faults), [name for name, _ in faults.values()], runner=runner)
    details = {row.name: row.detail for row in report.rows if row.outcome == "failed"}
    for name, words in faults.values():
        assert all(word in details.get(name, "") for word in words), (name, details)


@pytest.mark.slow
@native
def test_a_command_that_hangs_is_stopped(check, fault_folder):  # noqa: F811
    runner = command(fault_folder / "edgecore_fault" / "libfault.so")
    (row,) = check("hang", ["operators/aten.relu.default"], seconds=8, runner=runner).rows
    assert row.outcome == "failed"
    assert "aten.relu.default(float32[0, 3])" in row.detail and "has not ended after 7.2 s" in row.detail


@pytest.mark.full
@native
def test_state_is_checked_in_one_process_of_the_command(device_folder, device_package, monkeypatch):  # noqa: F811
    settings = {"options": {"hold_state": True}, "quick": True}
    runner = command(device_folder / "edgecore_device" / "libdevice.so")
    report = run("device", only=["state/", "device/"], runner=runner, **settings)
    assert report.ok, str(report)
    assert {row.name for row in report.rows if row.outcome == "skipped"} == {
        *("state/threads", "state/failed run", "state/pending executions"),
        *("device/pending executions", "device/sessions at once", "device/copies"),
    }
    faults = {
        "shared": ("sessions", "session 1"),
        "no-reset": ("reset", "after reset 1, step 0"),
        "half-export": ("export and import", "in another process after the import"),
    }
    for fault, (name, words) in faults.items():
        monkeypatch.setenv("EDGECORE_DEVICE_FAULT", fault)
        rows = run("device", only=f"state/{name}", runner=runner, **settings).rows
        (row,) = [row for row in rows if row.name == f"state/{name}"]
        assert row.outcome == "failed" and words in row.detail, (fault, row)


@pytest.mark.slow
@native
def test_options_for_loading_reach_the_backend():
    backend = pytest.importorskip("edgecore_xnnpack")
    settings = {"only": "networks/mlp", "quick": True, "runner": command(Path(backend.native_library()))}
    assert run("xnnpack", load_options={"winograd": "off", "winograd_memory": 64}, **settings).ok
    (row,) = run("xnnpack", load_options={"winograd": "maybe"}, **settings).rows
    assert row.outcome == "failed" and "the option winograd is 'off'" in row.detail and "'maybe'" in row.detail


@pytest.mark.parametrize(
    ("runner", "words"),
    [
        ("/no/edgecore-run --backend x", "/no/edgecore-run --backend x cannot be started: "),
        ("relative/edgecore-run", "relative/edgecore-run cannot be started: .*give absolute paths"),
        (["sh", "-c", "kill -9 $$"], r"sh -c 'kill -9 \$\$' died of signal 9 \(SIGKILL\)"),
        (
            ["sh", "-c", "echo no device >&2; exit 3"],
            "is no edgecore-run; with --help it ends with status 3: no device",
        ),
        ("echo hello", "echo hello is no edgecore-run; with --help it ends with status 0: hello --help"),
    ],
)
def test_a_command_that_starts_no_edgecore_run_is_one_error(device_package, runner, words):  # noqa: F811
    with pytest.raises(EdgecoreError, match=words):
        run("device", quick=True, runner=runner)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo made it; exit 0", "made 0 of 1 calls and ended with status 0: made it"),
        ("echo 'call 0: ok'; exit 0", "call 0 is ok, but its output cannot be read: .*No such file"),
        ("echo 'call 0: ok'; echo text > call_0_output_0.npy", "call 0 is ok, but its output cannot be read: "),
        ("echo 'call 0: ok'; echo freed twice >&2; exit 1", "made 1 of 1 calls and ended with status 1: freed twice"),
        ("kill -ILL $$", r"died of signal 4 \(SIGILL\)"),
        ("echo 'edgecore-run: It does not load.' >&2; exit 1", "elementwise: LoadFailed: It does not load.$"),
    ],
)
def test_a_command_that_does_something_else_is_one_failure(device_package, tmp_path, script, words):  # noqa: F811
    runner = tmp_path / "runner"
    runner.write_text(f'#!/bin/sh\n[ "$1" != --help ] || {{ echo edgecore-run; exit 0; }}\n{script}\n')
    runner.chmod(0o755)
    (row,) = run("device", only="networks/elementwise", quick=True, runner=str(runner)).rows
    assert row.outcome == "failed"
    assert "It does not load" in script or str(runner) in row.detail
    assert re.search(words, row.detail), row.detail
