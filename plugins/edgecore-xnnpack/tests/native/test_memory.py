"""Memory that is lent to XNNPACK, and what stays after a model is gone."""

from __future__ import annotations

import ctypes
import mmap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import edgecore


@pytest.fixture(scope="module")
def convolution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x -> sigmoid(conv(x)) over [1, 3, 5, 7]."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.Sigmoid()).eval()
    path = tmp_path_factory.mktemp("memory") / "convolution.pte"
    edgecore.compile(model, (torch.randn(1, 3, 5, 7),), backends=["xnnpack"]).save(path)
    return path


class Guarded:
    """Pages of memory before one that must not be touched."""

    def __init__(self, pages: int = 1) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.size = pages * mmap.PAGESIZE
        self._mapping = mmap.mmap(-1, self.size + mmap.PAGESIZE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._mapping))
        assert libc.mprotect(ctypes.c_void_p(self.address + self.size), mmap.PAGESIZE, 0) == 0

    def last(self, *shape: int) -> np.ndarray:
        """An array of float32 that ends where the pages end."""
        count = int(np.prod(shape))
        numbers = (ctypes.c_float * count).from_address(self.address + self.size - 4 * count)
        return np.ctypeslib.as_array(numbers).reshape(shape)


@pytest.mark.parametrize("count", [1, 4, 15, 16, 33, 1024])
def test_nothing_past_an_input_or_output_is_touched(count: int) -> None:
    example = torch.randn(1, count)
    buffer = edgecore.compile(nn.Sigmoid().eval(), (example,), backends=["xnnpack"]).buffer
    model = edgecore.load(bytes(buffer))
    pages, results = Guarded(), Guarded()
    x, y = pages.last(1, count), results.last(1, count)
    x[:] = example.numpy()
    model.forward(x, out=[y])
    np.testing.assert_allclose(y, torch.sigmoid(example).numpy(), rtol=1e-5, atol=1e-6)


def test_nothing_past_an_image_at_the_end_of_its_page_is_read(convolution: Path) -> None:
    model = edgecore.load(convolution)
    pages = Guarded()  # alive as long as what lies in it
    x = pages.last(1, 3, 5, 7)
    x[:] = np.random.default_rng(0).normal(size=x.shape)
    np.testing.assert_array_equal(model.forward(x), model.forward(x.copy()))


@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("limits", [False, True])
def test_nothing_past_the_output_of_a_maximum_is_touched(size: int, limits: bool) -> None:
    # Beyond 9 pixels XNNPACK's kernels read what they wrote before, in whole vectors.
    pool = nn.MaxPool2d(size)
    model = nn.Sequential(pool, nn.ReLU()) if limits else pool
    x = torch.randn(1, 5, 2 * size, 2 * size).to(memory_format=torch.channels_last)
    program = edgecore.compile(model.eval(), (x,), backends=[edgecore.Backend("xnnpack", required=True)])
    pages = Guarded()  # alive as long as what lies in it
    out = torch.from_numpy(pages.last(1, 2, 2, 5)).permute(0, 3, 1, 2)
    edgecore.load(program.buffer).forward(x, out=[out])
    assert torch.equal(out, model(x))


def test_nothing_past_the_output_of_a_softmax_is_touched() -> None:
    # Its last pass scales what it wrote before. Kernels without masks read that in whole vectors.
    x = torch.randn(3, 5)
    program = edgecore.compile(nn.Softmax(-1).eval(), (x,), backends=[edgecore.Backend("xnnpack", required=True)])
    pages = Guarded()  # alive as long as what lies in it
    out = pages.last(3, 5)
    model = edgecore.load(program.buffer)
    model.forward(x, out=[out])
    np.testing.assert_allclose(out, torch.softmax(x, -1).numpy(), rtol=1e-5)
    assert model.forward.staging_bytes >= 60


def test_nothing_past_an_output_that_another_node_reads_is_touched() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            total = x + x
            return total, torch.sigmoid(total)

    x = torch.randn(5)
    program = edgecore.compile(Both().eval(), (x,), backends=[edgecore.Backend("xnnpack", required=True)])
    pages = Guarded(), Guarded()
    outputs = [one.last(5) for one in pages]
    model = edgecore.load(program.buffer)
    model.forward(x, out=outputs)
    assert np.array_equal(outputs[0], (x + x).numpy())
    assert model.forward.staging_bytes >= 20  # for the first output: kernels without masks read past its end


def test_layouts_of_inputs_may_change_between_calls(convolution: Path) -> None:
    model = edgecore.load(convolution)
    plain = torch.randn(1, 3, 5, 7)
    expected = model.forward(plain)
    channels_last = plain.to(memory_format=torch.channels_last)
    for x in (channels_last, plain, plain.transpose(2, 3).contiguous().transpose(2, 3), channels_last):
        assert torch.equal(model.forward(x), expected)
        assert np.array_equal(model.forward(x.numpy()), expected.numpy())


def test_results_outlive_the_model(convolution: Path) -> None:
    model = edgecore.load(convolution)
    x = torch.randn(1, 3, 5, 7)
    first = model.forward(x)
    kept = first.clone()
    second = model.forward(-x)
    del model
    for _ in range(5):
        edgecore.load(convolution).forward(x + 1)
    assert torch.equal(first, kept)
    assert not torch.equal(first, second)


def test_threads_may_run_two_copies_of_one_file(convolution: Path) -> None:
    models = [edgecore.load(convolution, threads=2), edgecore.load(convolution, threads=1)]
    inputs = [torch.randn(1, 3, 5, 7) for _ in range(4)]
    expected = [models[0].forward(x) for x in inputs]

    def run(index: int) -> None:
        for turn in range(50):
            at = (index + turn) % len(inputs)
            assert torch.allclose(models[turn % 2].forward(inputs[at]), expected[at], atol=1e-6)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_loading_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "linear.pte"
    edgecore.compile(nn.Linear(512, 512).eval(), (torch.randn(1, 512),), backends=["xnnpack"]).save(path)  # 1 MiB
    x = np.zeros((1, 512), np.float32)
    for _ in range(20):
        edgecore.load(path).forward(x)
    before = resident()
    for _ in range(200):
        edgecore.load(path).forward(x)
    assert resident() - before < 8 << 20


def test_a_chain_of_layers_uses_the_same_memory_again() -> None:
    layers = [nn.Conv2d(8, 8, 1) for _ in range(16)]
    x = torch.randn(1, 8, 512, 512)  # 8 MiB, as is the output of each layer
    buffer = bytes(edgecore.compile(nn.Sequential(*layers).eval(), (x,), backends=["xnnpack"]).buffer)
    before = resident()
    model = edgecore.load(buffer)
    model.forward(x)
    assert resident() - before < 64 << 20
