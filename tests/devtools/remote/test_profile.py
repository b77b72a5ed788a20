"""Profiles of another device: edgecore-run runs there, its trace comes back."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy
import pytest
import torch

import edgecore
from edgecore import native_program
from edgecore.devtools import connect, profile_on
from edgecore.devtools.remote.profile import environment_of, run_there
from edgecore.errors import EdgecoreError, ExecutionError
from edgecore.processes.device import Device

needs_runner = pytest.mark.skipif(
    not Path(sys.executable).with_name("edgecore-run").is_file(), reason="the wheel of edgecore is not installed here"
)


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return connect("local", folder=str(tmp_path / "device"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
    edgecore.compile(model, (torch.ones(4, 8),), backends=["xnnpack"]).save(tmp_path / "net.pte")
    return tmp_path / "net.pte"


@needs_runner
def test_a_file_is_profiled_on_a_device(device: Device, file: Path, tmp_path: Path) -> None:
    numpy.save(tmp_path / "x.npy", numpy.ones((4, 8), numpy.float32))
    found = profile_on(device, file, inputs=[tmp_path / "x.npy"], runs=6, warmup=2, threads=1)
    assert (len(found.trace.runs), found.dropped, found.file) == (6, 0, "net.pte on local")
    assert found.load_ms > 0
    assert found.first_ms > 0
    assert "0" in {row.label for row in found.summary("module").rows}
    assert not list(Path(device.folder).glob("run-*"))


@needs_runner
def test_a_failure_of_the_runner_is_its_own_sentence(device: Device, file: Path, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"short")
    with pytest.raises(EdgecoreError, match=r"^local: edgecore-run: .*x\.bin has 5 bytes of data; input 0 needs 128"):
        profile_on(device, file, inputs=[tmp_path / "x.bin"], runs=1)


@pytest.mark.parametrize(("file_name", "variable"), [("so", "LD_LIBRARY_PATH"), ("dylib", "DYLD_LIBRARY_PATH")])
def test_the_library_of_kernels_is_found_where_it_was_pushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_name: str, variable: str
) -> None:
    monkeypatch.setattr(native_program, "LIBRARY_FOLDER", tmp_path)
    with pytest.raises(EdgecoreError, match="has no libedgecore_kernels.*--device-build"):
        environment_of(str, native_program.PROGRAM)
    (tmp_path / f"libedgecore_kernels.{file_name}").write_bytes(b"")
    assert environment_of(lambda path: f"/there/{path.name}", native_program.PROGRAM) == {variable: "/there"}


def build(tmp_path: Path, content: bytes) -> Path:
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "edgecore-run").write_bytes(content)
    return tmp_path / "build"


def test_a_build_for_another_processor_is_refused_before_it_is_pushed(
    device: Device, file: Path, tmp_path: Path
) -> None:
    riscv = b"\x7fELF\x02\x01\x01" + bytes(11) + (243).to_bytes(2, "little") + bytes(100)
    with pytest.raises(EdgecoreError, match="edgecore-run is built for riscv64, and the processor of local is"):
        profile_on(device, file, build=build(tmp_path, riscv))
    assert not list(Path(device.folder).iterdir())


def test_a_runner_that_is_killed_is_one_sentence(device: Device, file: Path, tmp_path: Path) -> None:
    with pytest.raises(EdgecoreError, match=r"local: edgecore-run was killed by signal 9 \(SIGKILL\)"):
        profile_on(device, file, build=build(tmp_path, b"#!/bin/sh\nkill -9 $$\n"))
    assert not list(Path(device.folder).glob("run-*"))


def test_the_reason_of_a_failure_is_the_last_line_or_the_call_that_failed(
    device: Device, file: Path, tmp_path: Path
) -> None:
    warned = b"#!/bin/sh\necho 'a warning of a library' >&2\necho 'edgecore-run: no memory' >&2\nexit 1\n"
    with pytest.raises(EdgecoreError, match=r"^local: edgecore-run: no memory$"):
        profile_on(device, file, build=build(tmp_path, warned))
    calls = b"#!/bin/sh\necho 'call 0: ok'\necho 'call 1: failed: no memory'\necho '1 of 2 calls failed' >&2\nexit 1\n"
    (tmp_path / "calls").write_bytes(calls)
    with pytest.raises(ExecutionError, match=r"^local: call 1: failed: no memory$"):
        run_there(device, [device.push(tmp_path / "calls")])


def test_a_folder_without_the_runner_is_one_sentence(device: Device, file: Path, tmp_path: Path) -> None:
    with pytest.raises(EdgecoreError, match="has no edgecore-run"):
        profile_on(device, file, build=tmp_path)
