"""Records of firmware in Python: the same events as `edgecore-run --records` makes of the same bytes."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from record_bytes import BACKEND, COPY, DELEGATE, EXECUTE, KERNEL, NAMED, OPEN, PREPARE, header, name_hash, ring, total

import edgecore
from edgecore.devtools import Inspector, Trace, summarize
from edgecore.devtools.profiling.profiler import profile_of_trace
from edgecore.devtools.profiling.symbols import ProgramSymbols
from edgecore.devtools.trace_buffer import etdump_of_records
from edgecore.errors import FormatError
from edgecore.format import PteFile, read_pte
from edgecore.format.etdump import read_etdump

EDGECORE_RUN = Path(sys.executable).with_name("edgecore-run")
FORWARD, TWICE = name_hash("forward"), name_hash("twice")
LOW = 0xFFFF


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 2


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Sigmoid()).eval()


@pytest.fixture(scope="module")
def pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "model.pte"
    edgecore.compile(network(), (torch.zeros(2, 4),), backends=[]).save(path)
    return path


@pytest.fixture(scope="module")
def delegated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of two methods with a delegate each, the second also with a kernel."""
    pytest.importorskip("edgecore_xnnpack")
    path = tmp_path_factory.mktemp("records") / "model.pte"
    inputs = (torch.zeros(2, 4),)
    edgecore.compile(
        {"forward": network(), "twice": Twice().eval()}, {"forward": inputs, "twice": inputs}, backends=["xnnpack"]
    ).save(path)
    return path


@pytest.fixture(scope="module")
def program(delegated: Path) -> PteFile:
    return read_pte(delegated.read_bytes())


def check_equal(pte: Path, records: bytes, folder: Path) -> None:
    """Compare the two readers: both give the same events, or both refuse the records for the same reason."""
    (folder / "device.ectr").write_bytes(records)
    command: list[str | Path] = [EDGECORE_RUN, pte, "--records", folder / "device.ectr", "--trace"]
    done = subprocess.run([*command, folder / "device.etdp"], capture_output=True, text=True)
    try:
        found: Any = etdump_of_records(records, read_pte(pte.read_bytes()))
    except FormatError as error:
        found = f"{error}."
    expected: Any = done.stderr.lower().removeprefix("edgecore-run: ").strip()
    if done.returncode == 0:
        expected = read_etdump((folder / "device.etdp").read_bytes())
    assert (found if isinstance(found, str) else found.run_data) == (
        expected.replace("ectr", "ECTR") if isinstance(expected, str) else expected.run_data
    )


RUN = [(500, 40, FORWARD & LOW, EXECUTE, 0), (1, 20, 0, KERNEL, 0), (25, 10, 1, KERNEL, 0)]
INSIDE = [
    (900, 50, FORWARD & LOW, EXECUTE, 3), (1, 4, 0, PREPARE, 0), (2, 1, 0, BACKEND, 7), (6, 30, 0, DELEGATE, 0),
    (7, 3, 0, COPY, 0), (12, 5, 0, BACKEND, 42), (18, 5, 0, BACKEND, 42), (25, OPEN, 0, BACKEND | NAMED, 99),
]  # fmt: skip
OTHER = [(100, 30, TWICE & LOW, EXECUTE, 4), (1, 20, 0, DELEGATE, 0), (25, 10, 65535, KERNEL, 0)]
TOTALS = [
    total(0, KERNEL, 2, 10, 30, 40, 1000, "forward"), total(1, KERNEL, 3, 7, OPEN, 50, 2**64 - 1, "forward"),
    total(FORWARD & LOW, EXECUTE, 3, 20, 41, 100, 3500, "forward"), total(0, PREPARE, 1, 5, 5, 5, 25, ""),
]  # fmt: skip
MEMORY = {
    "a run": ring(RUN, 3),
    "nothing": ring([], 0),
    "no place": header(16, 12, 12),
    "a ring that was overwritten": ring([*RUN[:2], RUN[2], *RUN], 1_000_003, 999_997),
    "a delegate": ring(INSIDE, 8, 5),
    "two methods": ring([*RUN, *OTHER, *INSIDE], 14),
    "another clock": header(16, 3, ticks_per_second=32_768) + ring(RUN, 3)[32:],
    "a clock that is nonsense": header(16, 3, ticks_per_second=1) + ring([(9, 9, FORWARD & LOW, 0, LOW)] * 3, 3)[32:],
    "totals": header(40, 4) + b"".join(TOTALS),
    "totals of loading": header(40, 1, 2) + TOTALS[3],
    "totals without the run": header(40, 2) + TOTALS[0] + TOTALS[1],
    "no header": b"ECTR",
    "foreign": b"ECXX" + header(16, 0)[4:],
    "another version": header(20, 0),
    "no unit": header(16, 0, ticks_per_second=0),
    "cut off": header(40, 3),
    "an unknown kind": ring([(0, 1, 0, 77, 0)], 1),
    "another program": ring([(0, 1, FORWARD + 1 & LOW, EXECUTE, 0)], 1),
    "totals of another program": header(40, 1) + total(0, KERNEL, 1, 1, 1, 1, 1, "other"),
    "totals of no event": header(40, 1) + total(0, KERNEL, 0, 1, 1, 1, 1, "forward"),
}

needs_runner = pytest.mark.skipif(not EDGECORE_RUN.is_file(), reason="the wheel of edgecore is not installed here")


@needs_runner
@pytest.mark.parametrize("records", MEMORY.values(), ids=MEMORY.keys())
def test_records_give_the_events_of_the_reader_in_cpp(
    pte: Path, delegated: Path, tmp_path: Path, records: bytes
) -> None:
    for file in (pte, delegated):
        check_equal(file, records, tmp_path)


@needs_runner
def test_random_records_give_the_events_of_the_reader_in_cpp(delegated: Path, tmp_path: Path) -> None:
    draw = random.Random(7)
    times: list[Callable[[], int]] = [lambda: draw.randrange(99), lambda: draw.randrange(1 << 32), lambda: OPEN]
    for _ in range(30):
        memory = [
            (draw.choice(times)(), draw.choice(times)(), draw.choice((FORWARD & LOW, TWICE & LOW)), EXECUTE, 0)
            if draw.random() < 0.2
            else (draw.choice(times)(), draw.choice(times)(), draw.randrange(4), draw.choice((1, 2, 3, 4, 5, 0x105)), 3)
            for _ in range(draw.randrange(40))
        ]
        check_equal(delegated, ring(memory, draw.randrange(80), draw.randrange(3)), tmp_path)


def test_a_trace_of_firmware_has_origins_and_is_profiled(pte: Path, tmp_path: Path) -> None:
    (tmp_path / "device.ectr").write_bytes(ring([*RUN, *RUN], 6))
    trace = Trace.read(tmp_path / "device.ectr", program=pte)
    assert [run.duration for run in trace.runs] == [40_000, 40_000]
    assert [event.origins[0].module for event in trace.runs[0].events if event.kind == "kernel"] == ["0", "1"]
    inspector = Inspector(etdump_path=str(tmp_path / "device.ectr"), program=pte)
    assert [event.name for event in inspector.event_blocks[0].events] == [
        "Method::execute", "native_call_linear.out", "native_call_sigmoid.out"
    ]  # fmt: skip
    assert "median of 2 runs 40.000 us" in profile_of_trace(pte, tmp_path / "device.ectr").table("module")


def test_records_without_their_program_or_of_another_are_one_sentence(pte: Path) -> None:
    with pytest.raises(FormatError, match="the records of firmware have no names; pass the program"):
        Trace.read(ring(RUN, 3))
    with pytest.raises(FormatError, match="^the records of the trace belong to a program with other methods$"):
        Trace.read(ring(OTHER, 3), program=pte)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damage_gives_a_format_error_or_a_trace(program: PteFile, data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from([record for record in MEMORY.values() if len(record) > 32])))
    del content[data.draw(st.integers(1, len(content))) :]
    places = st.integers(0, len(content) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=5)):
        content[place] = value
    with contextlib.suppress(FormatError):
        summarize(Trace(etdump_of_records(content, program), ProgramSymbols(program)))
