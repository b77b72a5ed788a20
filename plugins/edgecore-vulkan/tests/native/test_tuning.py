"""The load option `tune`: what was measured is kept in the folder of compiled shaders, and results stay right."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import edgecore


class Network(torch.nn.Module):
    """One layer of each kind that has sizes to measure."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = torch.nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.general = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.linear = torch.nn.Linear(32, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.general(self.depthwise(x)).flatten(2).transpose(1, 2))


@pytest.mark.parametrize("gpu_shaders", [False, True], ids=["default", "gpu"])
def test_what_was_measured_is_kept_and_damaged_files_are_replaced(tmp_path: Path, gpu_shaders: bool) -> None:
    model, x = Network().eval(), torch.randn(1, 16, 14, 14)
    program = edgecore.compile(model, (x,), backends=[edgecore.Backend("vulkan", required=True)])
    options = {"tune": True, "pipeline_cache_folder": str(tmp_path), "gpu_shaders": gpu_shaders, "validation": True}

    def stored() -> Path:
        result = edgecore.load(program.buffer, options={"vulkan": options}).forward(x)
        torch.testing.assert_close(torch.as_tensor(result), model(x), rtol=1e-4, atol=1e-5)
        [path] = tmp_path.glob("*tuning")
        return path

    path = stored()
    number, size = path.stat().st_ino, path.stat().st_size
    assert stored().stat().st_ino == number  # a file that is written again is a new one
    path.write_bytes(path.read_bytes()[:-1])
    assert stored().stat().st_size == size
