"""Records of a trace that a device without a file system has made: `edgecore-run --records` converts them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from record_bytes import BACKEND, DELEGATE, EXECUTE, KERNEL, NAMED, OPEN, PREPARE, header, name_hash, ring, total

import edgecore

EDGECORE_RUN = Path(sys.executable).with_name("edgecore-run")
pytestmark = [
    pytest.mark.skipif(not EDGECORE_RUN.is_file(), reason="the wheel of edgecore is not installed here"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]
FORWARD = name_hash("forward") & 0xFFFF


@pytest.fixture(scope="module")
def pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "model.pte"
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Sigmoid()).eval()
    edgecore.compile(model, (torch.zeros(2, 4),), backends=[]).save(path)
    return path


def convert(pte: Path, records: bytes, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "device.ectr").write_bytes(records)
    command: list[str | Path] = [
        EDGECORE_RUN,
        pte,
        "--records",
        folder / "device.ectr",
        "--trace",
        folder / "device.etdp",
    ]
    return subprocess.run(command, capture_output=True, text=True)


def blocks(pte: Path, records: bytes, folder: Path) -> list[Any]:
    done = convert(pte, records, folder)
    assert done.returncode == 0, done.stderr
    devtools = pytest.importorskip("executorch.devtools")
    return list(devtools.Inspector(etdump_path=str(folder / "device.etdp")).event_blocks)


def times(block: Any) -> dict[str, list[int]]:
    """Nanoseconds of each event."""
    return {event.name: [round(time * 1e6) for time in event.perf_data.raw] for event in block.events}


def test_a_ring_has_the_names_of_the_program(pte: Path, tmp_path: Path) -> None:
    one = [(500, 40, FORWARD, EXECUTE, 0), (1, 20, 0, KERNEL, 0), (25, 10, 1, KERNEL, 0)]
    two = [(900, 50, FORWARD, EXECUTE, 0), (1, 30, 0, KERNEL, 0), (35, 10, 1, KERNEL, 0)]
    (runs,) = blocks(pte, ring([*one, *two, *[(0,) * 5] * 3], 6), tmp_path)
    assert runs.name == "Execute"
    assert times(runs) == {
        "Method::execute": [40_000, 50_000],
        "native_call_linear.out": [20_000, 30_000],
        "native_call_sigmoid.out": [10_000, 10_000],
    }


def test_a_ring_that_was_overwritten_begins_with_a_whole_run(pte: Path, tmp_path: Path) -> None:
    # Of the first run only the second kernel is left, at place 2; the third run overwrote the rest.
    last = [(1200, 60, FORWARD, EXECUTE, 1), (1, 40, 0, KERNEL, 0)]
    middle = [(900, 50, FORWARD, EXECUTE, 0), (1, 30, 0, KERNEL, 0), (35, 10, 1, KERNEL, 0)]
    memory = [*last, (25, 10, 1, KERNEL, 0), *middle]
    loading, *runs = blocks(pte, ring(memory, 8, 2), tmp_path)
    assert "3 events were dropped" in times(loading)
    assert [times(run)["Method::execute"] for run in runs] == [[50_000], [60_000]]


def test_operations_of_delegates_have_their_number_or_a_hash(pte: Path, tmp_path: Path) -> None:
    unknown = name_hash("pool")
    run = [(0, 40, FORWARD, EXECUTE, 0), (1, 30, 0, DELEGATE, 0), (2, 5, 0, BACKEND, 42)]
    run += [(8, OPEN, 0, BACKEND | NAMED, unknown)]
    (runs,) = blocks(pte, ring(run, 4), tmp_path)
    assert times(runs)["[42]"] == [5_000]
    assert times(runs)[f"operation {unknown}"] == [0]


def test_totals_are_a_run_of_mean_times(pte: Path, tmp_path: Path) -> None:
    run = total(FORWARD, EXECUTE, 2, 20, 40, 60, 2000, "forward")
    (runs,) = blocks(pte, header(40, 2) + total(0, KERNEL, 2, 10, 30, 40, 1000, "forward") + run, tmp_path)
    assert times(runs) == {"Method::execute": [30_000], "native_call_linear.out": [20_000]}
    kernel = next(event for event in runs.events if event.name == "native_call_linear.out")
    expected = {"count": 2, "min": 10_000, "max": 30_000, "deviation": 10_000}
    assert [json.loads(text) for text in kernel.raw_delegate_debug_metadatas] == [expected]


def test_totals_after_that_of_the_run_and_of_an_unfinished_run_are_kept(pte: Path, tmp_path: Path) -> None:
    run = total(FORWARD, EXECUTE, 0, OPEN, 0, 0, 0, "forward")
    memory = header(40, 3) + run + total(1, PREPARE, 1, 5, 5, 5, 25, "")
    loading, runs = blocks(pte, memory + total(1, KERNEL, 2, 10, OPEN, 40, 2**64 - 1, "forward"), tmp_path)
    assert "prepare " in times(loading)
    assert times(runs) == {"Method::execute": [0], "native_call_sigmoid.out": [20_000]}
    kernel = next(event for event in runs.events if event.name == "native_call_sigmoid.out")
    assert [json.loads(text).keys() for text in kernel.raw_delegate_debug_metadatas] == [{"count", "min", "max"}]


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (b"ECTR", "have no header"),
        (b"ECXX" + header(16, 0)[4:], "do not begin with ECTR"),
        (header(20, 0), "have a version that is not known"),
        (header(16, 0, ticks_per_second=0), "have no time unit"),
        (header(40, 3), "are cut off"),
        (ring([(0, 1, 0, 77, 0)], 1), "have an event of unknown kind"),
        (ring([(0, 1, FORWARD ^ 1, EXECUTE, 0)], 1), "belong to a program with other methods"),
        (header(40, 1) + total(0, KERNEL, 1, 1, 1, 1, 1, "other"), "belong to a program with other methods"),
    ],
)
def test_damaged_records_are_one_sentence(pte: Path, tmp_path: Path, records: bytes, reason: str) -> None:
    done = convert(pte, records, tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"edgecore-run: The records of the trace {reason}.\n"


@pytest.mark.parametrize(
    "options",
    [
        ["--records", "a.ectr"],
        ["--records", "a.ectr", "--trace", "a.etdp", "--runs", "3"],
        ["--records", "a.ectr", "--trace", "a.etdp", "--input", "a.npy"],
        ["--records", "a.ectr", "--trace", "a.etdp", "--trust"],
        ["--trace-level", "calls"],
        ["--trace-limit", "40000"],
    ],
)
def test_options_that_would_do_nothing_are_refused(options: list[str]) -> None:
    done = subprocess.run([EDGECORE_RUN, "a.pte", *options], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
