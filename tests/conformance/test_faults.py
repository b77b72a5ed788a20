"""The suite against a small backend that is right, and with faults planted in it: each is found, and named."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from fault_package import check, fault_folder  # noqa: F401


@pytest.mark.full
def test_a_backend_without_faults_passes(check):  # noqa: F811
    report = check()
    assert report.ok, str(report)
    outcomes = {row.name: row.outcome for row in report.rows}
    groups = {row.group for row in report.rows}
    assert groups == {
        "installation", "documentation", "options", "partitioner", "operators", "networks", "recipes", "shapes",
        "priority", "methods", "lifetime", "values", "state", "device", "declarations", "blobs",
    }  # fmt: skip
    skipped = [name for name, outcome in outcomes.items() if outcome == "skipped"]
    elsewhere = ("state/", "device/", "priority/with ")  # the last depends on the other backend
    assert [name for name in skipped if not name.startswith(elsewhere)] == ["values/equal to eager"]
    details = {row.name: row.detail for row in report.rows}
    assert details["state/sessions"].startswith("it keeps no state: its library has no functions for state sets")
    assert details["device/copies"] == (
        "it has no device memory: its library lacks buffer_create, buffer_destroy, buffer_map, buffer_unmap"
    )
    assert details["recipes/configurations"].startswith("tried: other; NOT RUN: absent (")
    assert "this processor lacks the kernels" in details["recipes/configurations"]
    assert details["recipes/int8-weights, linear"].endswith("; kernels of other")


def test_another_package_that_dies_does_not_concern_it(check, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("EDGECORE_BACKENDS_ALLOW", "FaultBackend,DyingBackend")
    (tmp_path / "edgecore_dying.py").write_text("import os; os._exit(3)")
    (tmp_path / "edgecore_dying-1.0.dist-info").mkdir()
    entry_points = tmp_path / "edgecore_dying-1.0.dist-info" / "entry_points.txt"
    entry_points.write_text("[edgecore.backends]\nDyingBackend = edgecore_dying\n")
    report = check(only=["documentation/metadata", "priority/"])
    assert report.ok, str(report)


FAULTS = {
    # Faults that do not get in each other's way, each with the check that finds it and words of its sentence.
    "compiling": [
        (
            "wrong-int32",
            "operators/aten.mul.Tensor",
            ["aten.mul.Tensor(int32[3, 5, 7], int32[3, 5, 7])", "values differ"],
        ),
        ("claims", "operators/aten.sub.Tensor", ["claims float32, int32 and supports none of", "operator"]),
        # Two blocks of 112 bytes; a library's own buffer that grows meanwhile adds a few bytes to the average.
        ("leak", "lifetime/load and destroy", ["it leaks 2", "bytes of heap with each load"]),
        ("mapping", "lifetime/run", ["its address space grows by 8192 bytes with each call (2400 calls)"]),
        ("handles", "partitioner/debug handles", ["lacks the handles of aten."]),
        ("unordered", "declarations/blob graph", [" reads [", "which nothing before it computes"]),
        ("random", "partitioner/reproducible blobs", ["blob 0", "the second time"]),
        ("undeclared", "options/unknown", ["no_such_option_of_this_backend=True is accepted", "extra"]),
        ("undescribed", "options/level", ["the option level has no description"]),
        ("ignores", "options/rounds", ["rounds=a value of a wrong type is accepted"]),
        ("symbol", "installation/exported symbol", ["exports edgecore_fault_version besides edgecore_backend_v0"]),
        ("prints", "installation/light import", ["prints 'edgecore-fault: hello'"]),
    ],
    "running": [
        ("crash", "operators/aten.relu.default", ["aten.relu.default(float32[1])", "SIGABRT"]),
        ("modest", "networks/elementwise", ["tags aten.add.Tensor, which operator_support() does not list"]),
        ("thread", "declarations/threads", ["declares OWN_THREADS", "threads are left after the model is destroyed"]),
        ("overread", "declarations/buffers", ["inputs that end at the end of mapped memory", "SIGSEGV"]),
        (
            "last-row",
            "recipes/int8-weights, embedding",
            ["int8-weights, embedding, 15 rows, result 0: 17 of 255 values differ", "at (14, "],
        ),
        ("unchecked-blob", "blobs/bit flips", ["of byte", "the process died of signal 11 (SIGSEGV)"]),
    ],
    "hanging": [
        ("hang", "operators/aten.relu.default", ["aten.relu.default(float32[0, 3])", "made no progress for 8 s"]),
        ("descriptors", "lifetime/load and destroy", ["file descriptors open after"]),
    ],
    "mutating": [
        ("silent", "partitioner/reasons", ["is not tagged, without a reason"]),
        ("mutates", "partitioner/only tags", ["changed aten.add.Tensor (node add"]),
        ("mutates", "networks/elementwise", ["changed the program; a partitioner may only tag nodes"]),
    ],
    "half precision": [
        (
            "half",
            "operators/aten.add.Tensor",
            ["claims float16 and supports none of", "aten.add.Tensor(float16[3, 5, 7], float16[3, 5, 7])"],
        ),
        (
            "half",
            "operators/aten.mul.Tensor",
            ["aten.mul.Tensor(float16[3, 5, 7], float16[3, 5, 7])", "values differ"],
        ),
        (
            "half",
            "operators/aten.relu.default",
            ["aten.relu.default(float16[3, 5, 7])", "relu has no kernel for float16"],
        ),
        ("rare-leak", "lifetime/load and destroy", ["bytes of heap with each load (240 loads"]),
    ],
    "raising": [
        (
            "raises",
            "operators/aten.relu.default",
            ["FaultBackend failed to compile a partition of", "at aten.relu.default", "ValueError: no room for a relu"],
        ),
        (
            "recipe-raises",
            "recipes/int8-weights, embedding",
            ["quantize='int8-weights' failed: IndexError: no table; this is a fault of edgecore or of that code"],
        ),
    ],
    "other kernels": [
        ("other-kernels", "recipes/int8-weights, linear", ["int8-weights, linear, kernels of other, 15 rows"])
    ],
    "undeclared memory": [("memory", "networks/elementwise", ["bytes of scratch memory, but declared 96"])],
    "another interface": [("version", "networks/elementwise", ["was built for version 7."])],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found_and_named(check, name):  # noqa: F811
    faults = ",".join(fault for fault, _, _ in FAULTS[name])
    checks = [one for _, one, _ in FAULTS[name]]
    report = check(faults, checks, seconds=8 if name == "hanging" else None)
    rows = {row.name: row for row in report.rows}
    for fault, one, words in FAULTS[name]:
        assert rows[one].outcome == "failed", f"{fault}: {rows[one]}"
        for word in words:
            assert word in rows[one].detail, fault
    assert not report.ok
