"""Layers of int16 values on bare metal, on emulated boards, with Arm's Cortex-M33 and Cortex-M55."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from embedding import ROOT, needs

import edgecore


@pytest.fixture(scope="module")
def firmware() -> ModuleType:
    needs("arm-none-eabi-g++", "qemu-system-arm")
    sys.path.insert(0, str(ROOT / "examples" / "firmware"))
    import firmware as module

    return module


PARTS = 6
"""Programs that have a part of the layers each: one with all of them needs more memory than a board has."""


@dataclass
class Layers:
    """A program that calls many layers on parts of its input, and what is right for its joined results."""

    pte: Path
    input: np.ndarray
    expected: np.ndarray


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Layers]:
    import torch
    from int16_layer_cases import CASES
    from torch import nn

    class Model(nn.Module):
        def __init__(self, calls: list[tuple[str, Any]]) -> None:
            super().__init__()
            self.calls = calls
            for index, (_, (_, weight, channels, *_)) in enumerate(calls):
                self.register_buffer(f"weight{index}", weight)
                self.register_buffer(f"channels{index}", channels)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            results, begin = [], 0
            for index, (operator, (input, _, _, *rest)) in enumerate(self.calls):
                part = x[begin : begin + input.numel()].view(input.shape)
                begin += input.numel()
                constants = getattr(self, f"weight{index}"), getattr(self, f"channels{index}")
                results.append(getattr(torch.ops.edgecore, operator)(part, *constants, *rest).flatten())
            return torch.cat(results)

    folder = tmp_path_factory.mktemp("layers")
    programs = []
    for part in range(PARTS):
        calls = list(CASES.values())[part::PARTS]
        x = torch.cat([arguments[0].flatten() for _, arguments in calls])
        model = Model(calls).eval()
        pte = folder / f"layers{part}.pte"
        edgecore.compile(model, (x,), runtime="edgecore", memory="static").save(pte)
        programs.append(Layers(pte, x.numpy(), model(x).numpy()))
    return programs


@pytest.mark.parametrize("processor", ["cortex-m33", "cortex-m55"])
def test_int16_layers_give_the_bits_of_the_reference(
    firmware: ModuleType, programs: list[Layers], tmp_path: Path, processor: str
) -> None:
    elf = firmware.build(tmp_path / "build", processor, [layers.pte for layers in programs])
    for layers in programs:
        (tmp_path / f"{layers.pte.stem}.in").write_bytes(layers.input.tobytes())
    status, text = firmware.emulate(elf, processor, tmp_path)
    assert status == 0, text
    for layers in programs:
        assert (tmp_path / f"{layers.pte.stem}.out").read_bytes() == layers.expected.tobytes()
