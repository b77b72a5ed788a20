"""No corrupted file kills the process that loads it. The full count is a command: see `corrupt.py`."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import edgecore


class Net(nn.Module):
    """Most of what a file holds: delegates, kernels between them, constants, several outputs."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(2))
        self.table = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 5)

    def forward(self, x, index):
        y = self.conv(x).mean((2, 3))
        z = y + self.table(index)
        return self.head(z).softmax(-1), z * 2


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("robustness")
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 8, 8), torch.tensor([3]))
    paths = {}
    for name, backends in (("portable", []), ("xnnpack", ["xnnpack"])):
        paths[name] = folder / f"{name}.pte"
        edgecore.compile(Net().eval(), inputs, backends=backends).save(paths[name])
    return paths


@pytest.mark.parametrize("name", ["portable", "xnnpack"])
def test_no_corruption_kills_the_process(files, name):
    script = Path(__file__).with_name("corrupt.py")
    done = subprocess.run(
        [sys.executable, str(script), str(files[name]), "--count", "500"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused" in done.stdout
