"""Packed weights are kept once in a process, as long as somebody uses them."""

from __future__ import annotations

import ctypes
import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import edgecore
from edgecore_xnnpack.partitioner import XnnpackPartitioner

MIB = 1 << 20


def resident(kind: str) -> int:
    """Bytes of resident memory: `RssFile` of mapped files, the program for one; `RssAnon` the rest, packed weights too.

    glibc keeps free blocks in the middle of its heap resident, and may put packed weights into one that earlier tests
    left: `malloc_trim` gives their pages back, so that what is resident is in use.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(kind))


def anonymous() -> int:
    return resident("RssAnon")


class Net(nn.Module):
    """Three kinds of convolutions, and a matrix of 40 MiB, far more than what else changes between two readings."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.convolutions = nn.Sequential(nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3, groups=4), nn.ConvTranspose2d(4, 4, 2))
        self.linear = nn.Linear(4 * 23 * 23, 5000)

    def forward(self, x: torch.Tensor) -> Any:
        return self.linear(self.convolutions(x).flatten(1))


def save(path: Path, net: nn.Module) -> Path:
    edgecore.compile(net.eval(), (torch.randn(1, 4, 26, 26),), backends=["xnnpack"]).save(path)
    return path


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("weights") / "net.pte", Net())


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(1, 4, 26, 26)).astype(np.float32)


@pytest.mark.slow
def test_loads_of_one_file_share_packed_weights(net: Path, image: np.ndarray) -> None:
    edgecore.load(net).forward(image)
    empty = anonymous()
    models = [edgecore.load(net)]
    expected = models[0].forward(image)
    first = anonymous()
    assert first - empty > 36 * MIB
    for _ in range(4):
        models.append(edgecore.load(net))
        assert np.array_equal(models[-1].forward(image), expected)
    assert anonymous() - first < 20 * MIB
    del models[:-1]  # whoever comes last keeps them
    assert np.array_equal(models[0].forward(image), expected)
    del models
    assert anonymous() - empty < 20 * MIB


def test_methods_of_one_file_share_packed_weights(tmp_path: Path) -> None:
    class Method(nn.Module):
        def __init__(self, linear: nn.Linear) -> None:
            super().__init__()
            self.linear = linear

        def forward(self, x: torch.Tensor) -> Any:
            return self.linear(x)

    linear = nn.Linear(1000, 10000)  # 38 MiB
    rows = {"prefill": torch.randn(16, 1000), "decode": torch.randn(1, 1000)}
    exported = {name: torch.export.export(Method(linear).eval(), (x,)) for name, x in rows.items()}
    program = edgecore.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    path = tmp_path / "methods.pte"
    program.to_executorch().save(path)
    empty = anonymous()
    model = edgecore.load(path)
    for name, x in rows.items():
        np.testing.assert_allclose(model[name](x), linear(x).detach(), atol=1e-4)
    assert anonymous() - empty < 60 * MIB


def test_weights_as_the_file_has_them_leave_memory(net: Path, image: np.ndarray) -> None:
    before = resident("RssFile")
    model = edgecore.load(net)
    model.forward(image)
    assert resident("RssFile") - before < 20 * MIB


def test_weights_that_differ_anywhere_are_not_shared(tmp_path: Path, net: Path, image: np.ndarray) -> None:
    """Another value, bias, activation or node over the same bytes."""
    torch.manual_seed(0)
    x = torch.randn(1, 64)
    base = nn.Linear(64, 64)
    value, bias, transposed = (nn.Linear(64, 64) for _ in range(3))
    with torch.no_grad():
        for other in (value, bias, transposed):
            other.load_state_dict(base.state_dict())
        value.weight[63, 63] += 1
        bias.bias[63] += 1
        transposed.weight.copy_(base.weight.T)
    variants = [base, value, bias, transposed, nn.Sequential(base, nn.ReLU()), nn.Sequential(base, base)]
    programs = [edgecore.compile(v.eval(), (x,), backends=["xnnpack"]) for v in variants]
    models = [edgecore.load(bytes(p.buffer)) for p in programs]
    for model, variant in zip(models, variants, strict=True):
        np.testing.assert_allclose(model.forward(x), variant(x).detach(), rtol=1e-5, atol=1e-5)


def test_threads_may_load_at_once(net: Path, image: np.ndarray) -> None:
    expected = edgecore.load(net).forward(image)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: edgecore.load(net).forward(image), range(20)):
            np.testing.assert_array_equal(result, expected)
