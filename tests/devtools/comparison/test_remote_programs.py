"""Comparisons on a device: the same programs run there, and give the same report as here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from edgecore.devtools import compare, connect
from edgecore.devtools.comparison import remote_programs as compare_device
from edgecore.errors import CompileError, EdgecoreError, ExecutionError
from edgecore.processes.command import Ended
from edgecore.processes.device import Device

pytestmark = pytest.mark.skipif(
    not Path(sys.executable).with_name("edgecore-run").is_file(), reason="the wheel of edgecore is not installed here"
)


class Small(nn.Module):
    """A delegate, kernels between, a buffer that changes, and outputs of several dtypes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.head = nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = self.head(torch.sigmoid(self.first(x)))
        self.calls.add_(1.0)
        return y + self.calls, y.argmax(-1), y.to(torch.bfloat16)


def samples() -> list[tuple[torch.Tensor, ...]]:
    return [(torch.randn(2, 8, generator=torch.Generator().manual_seed(seed)),) for seed in range(3)]


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Small().eval()


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return connect("local", folder=str(tmp_path / "device"))


@pytest.mark.parametrize("backends", [[], ["xnnpack"]], ids=["kernels", "xnnpack"])
def test_a_device_gives_the_report_of_this_machine(model: nn.Module, device: Device, backends: list[str]) -> None:
    if backends:
        pytest.importorskip("edgecore_xnnpack")
    here = compare(model, samples(), backends=backends)
    there = compare(model, samples(), backends=backends, device=device)
    assert there.ok, str(there)
    assert [str(row) for row in there.rows] == [str(row) for row in here.rows]
    assert len(there.rows) >= 3
    assert [str(output.own) for output in there.outputs] == [str(output.own) for output in here.outputs]
    assert there.conditions.way == here.conditions.way
    assert " on local against PyTorch" in str(there).splitlines()[0]
    assert (there.as_dict()["device"], here.as_dict()["device"]) == ("local", "")
    assert not list(Path(device.folder).glob("run-*"))
    assert not list(Path(device.folder).rglob("*.pte"))  # each is as large as the model


def test_samples_are_split_over_processes_by_the_bytes_of_outputs(
    model: nn.Module, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = compare(model, samples(), device=device)
    monkeypatch.setattr(compare_device, "OUTPUT_BYTES", 1)
    commands = []
    run = device.run

    def record(command: Sequence[str], **settings: Any) -> Ended:
        commands.append(command)
        return run(command, **settings)

    monkeypatch.setattr(device, "run", record)
    split = compare(model, samples(), device=device)
    assert len(commands) == 3 * (1 + split.conditions.programs)
    assert [str(row) for row in split.rows] == [str(row) for row in whole.rows]


def test_the_program_is_cut_on_a_device_too(model: nn.Module, device: Device) -> None:
    report = compare(model, samples()[:1], device=device, cut=True)
    assert report.ok, str(report)
    assert report.conditions.cut


def test_a_call_that_fails_there_is_one_sentence(model: nn.Module, device: Device, tmp_path: Path) -> None:
    build = tmp_path / "build"
    build.mkdir()
    (build / "edgecore-run").write_text("#!/bin/sh\necho 'call 0: failed: No memory.'; exit 1\n")
    with pytest.raises(ExecutionError, match=r"^local: call 0: failed: No memory\.$"):
        compare(model, samples(), device=device, device_build=build)
    (build / "edgecore-run").write_text('#!/bin/sh\nfor x; do case "$x" in */runs|*/values) : > "$x";; esac; done\n')
    with pytest.raises(EdgecoreError, match="not an ETDump"):
        compare(model, samples(), device=device, device_build=build)


def test_inputs_other_than_tensors_are_refused(device: Device) -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, factor: float) -> torch.Tensor:
            return torch.relu(x) * factor

    with pytest.raises(CompileError, match="a comparison on a device takes tensors only"):
        compare(Scaled().eval(), [(torch.ones(2), 3.0)], device=device)
