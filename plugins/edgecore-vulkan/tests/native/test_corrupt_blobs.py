"""Test that no damaged blob makes the delegate crash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from vulkan_support import Function

import edgecore

I, X, Y = torch.arange(12).reshape(3, 4), torch.randn(1, 8, 6, 6), torch.randn(4, 16)


class Images(nn.Module):
    """Convolutions of all kinds, pooling and resizing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.point = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 12, 1)
        self.depth, self.back = nn.Conv2d(12, 12, 3, 2, groups=12), nn.ConvTranspose2d(12, 4, 2, 2)

    def forward(self, x):
        y = self.depth(F.relu6(self.point(F.hardswish(self.first(x)))))
        z = self.back(F.pad(F.max_pool2d(y, 2, 1), (1, 0, 0, 1)))
        return F.interpolate(z, scale_factor=2.0, mode="bilinear"), y.mean((2, 3)), F.avg_pool2d(y, 2).flip(1)


class Texts(nn.Module):
    """An embedding, norms and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.heads = nn.Embedding(12, 16), nn.LayerNorm(16), nn.Linear(16, 48)

    def forward(self, tokens):
        q, k, v = (
            part.unflatten(2, (2, 8)).transpose(1, 2) for part in self.heads(self.norm(self.table(tokens))).chunk(3, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return torch.softmax(y, -1), F.gelu(y) @ y.transpose(2, 3), y.amax(-1, keepdim=True)


def moves(x):
    kept = torch.where(x > 0, x, x.abs().sqrt())
    halves = kept.split(8, 1)
    return torch.cat([halves[1], halves[0] * 2], 0).t().reshape(2, -1)[:, 3:40:2], kept.argmax(1), kept.repeat(2, 1)


def indices(x):
    return (
        x.index_select(1, I[0, :3]).permute(1, 0),
        torch.gather(x, 1, I),
        (x[1].unsqueeze(1).expand(16, 3) + 1).sum(0),
    )


class Caches(nn.Module):
    """Rows of a cache that are replaced, attention over it, and a running total."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.randn(1, 2, 12, 8))
        self.register_buffer("total", torch.arange(16.0).reshape(1, 2, 1, 8))

    def forward(self, x, position):
        self.keys[:, :, position] = x
        self.total += x
        return F.scaled_dot_product_attention(x, self.keys, self.keys), self.total * 2


def float_files(save: Callable[..., None]) -> None:
    networks = {
        "images": (Images(), X),
        "texts": (Texts(), I),
        "moves": (Function(moves), Y),
        "indices": (Function(indices), torch.randn(3, 16)),
    }
    for name, (module, x) in networks.items():
        for runtime in ("executorch-1.5", "edgecore"):
            save(f"{name}-{runtime}", module, x, runtime=runtime)


def integer_files(save: Callable[..., None]) -> None:
    torchao = pytest.importorskip("torchao.quantization")
    from vulkan_layers import ROWS, Net, quantized

    for bits, granularity in ((torch.int4, torchao.PerGroup(32)), (torch.int8, ROWS)):
        for is_dynamic in (True, False):
            layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 6))
            save(f"{bits}-{is_dynamic}", quantized(layers, bits, granularity, is_dynamic), torch.randn(4, 64))
    image = torch.randn(1, 3, 16, 16)
    save("convolutions", Net(), image, quantize="int8", calibration=[(image,)])


def state_files(save: Callable[..., None]) -> None:
    save("caches", Caches(), torch.randn(1, 2, 1, 8), torch.tensor([3]), runtime="edgecore")


@pytest.mark.parametrize(
    ("make_files", "count"),
    [
        (float_files, 600),
        (integer_files, 300),
        (state_files, 300),
        *(pytest.param(one, 5000, marks=pytest.mark.full) for one in (float_files, integer_files, state_files)),
    ],
)
def test_damaged_blobs_crash_nothing(make_files, count, tmp_path):
    def save(name: str, module: nn.Module, *inputs: torch.Tensor, **options) -> None:
        program = edgecore.compile(module.eval(), inputs, backends=["vulkan"], **options)
        assert program.pte.delegate_blobs
        (tmp_path / f"{name}.pte").write_bytes(program.buffer)
        np.savez(tmp_path / f"{name}.npz", *(one.numpy() for one in inputs))

    make_files(save)
    script = Path(__file__).parents[1] / "damage.py"
    command = [sys.executable, str(script), str(tmp_path), str(count), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    *_, last = done.stdout.splitlines()
    assert done.returncode == 0, f"try {last}: {done.stderr[-2000:]}"
    assert last.startswith("refused ")
