"""Operators on int16 values on bare metal, on emulated boards, with Arm's Cortex-M33 and Cortex-M55."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from embedding import ROOT, needs

import edgecore

PARTS = 9
"""Programs that have a part of the calls each: one with all of them needs more memory than a board has."""


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["cortex-m33", "cortex-m55"])
def test_operators_on_int16_give_the_bits_of_the_reference(tmp_path: Path, processor: str) -> None:
    needs("arm-none-eabi-g++", "qemu-system-arm")
    sys.path.insert(0, str(ROOT / "examples" / "firmware"))
    import firmware
    import torch
    from int16_cases import CASES
    from int16_layer_cases import CASES as LAYER_CASES
    from torch import nn

    class Calls(nn.Module):
        """Calls operators; the first argument of each is a part of the input, other tensors are constants."""

        def __init__(self, calls: list[tuple[str, tuple[Any, ...]]]) -> None:
            super().__init__()
            self.calls = calls
            for index, (_, arguments) in enumerate(calls):
                for position, value in enumerate(arguments):
                    if isinstance(value, torch.Tensor):
                        self.register_buffer(f"value{index}_{position}", value)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            results, begin = [], 0
            for index, (operator, (input, *others)) in enumerate(self.calls):
                part = x[begin : begin + input.numel()].view(input.shape)
                begin += input.numel()
                for position, value in enumerate(others):
                    others[position] = getattr(self, f"value{index}_{position + 1}", value)
                results.append(getattr(torch.ops.edgecore, operator)(part, *others).flatten())
            return torch.cat(results)

    def fits(arguments: tuple[Any, ...]) -> bool:
        # torch.export fails where a scalar is an index of a table.
        return arguments[0].dim() > 0 and all(
            0 < value.numel() <= 2500 for value in arguments if isinstance(value, torch.Tensor)
        )

    calls = [call for call in CASES.values() if fits(call[1])]
    assert {operator for operator, _ in calls} == {operator for operator, _ in CASES.values()}
    calls += LAYER_CASES.values()
    expected = {}
    for part in range(PARTS):
        model = Calls(calls[part::PARTS]).eval()
        x = torch.cat([arguments[0].flatten() for _, arguments in model.calls])
        pte = tmp_path / f"part{part}.pte"
        edgecore.compile(model, (x,), runtime="edgecore", memory="static").save(pte)
        pte.with_suffix(".in").write_bytes(x.numpy().tobytes())
        expected[pte] = model(x).numpy().tobytes()
    elf = firmware.build(tmp_path / "build", processor, list(expected))
    status, text = firmware.emulate(elf, processor, tmp_path)
    assert status == 0, text
    for pte, result in expected.items():
        assert pte.with_suffix(".out").read_bytes() == result
