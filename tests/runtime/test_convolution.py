"""Convolutions that the runtime's own kernels compute, with images of changing sizes."""

from __future__ import annotations

import copy

import pytest

import edgecore

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("channels_last", [False, True])
def test_images_of_changing_sizes_give_the_same_bits_with_any_number_of_threads(channels_last: bool) -> None:
    """Some of these sizes gain from Winograd's algorithm, others do not."""
    torch.manual_seed(0)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    layers = [torch.nn.Conv2d(16, 24, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(24, 17, 3)]
    model = torch.nn.Sequential(*layers).eval().to(memory_format=layout)
    dims = {axis: torch.export.Dim(name, min=4, max=64) for axis, name in ((2, "height"), (3, "width"))}

    def image(*size: int) -> torch.Tensor:
        return torch.randn(2, 16, *size).contiguous(memory_format=layout)

    program = edgecore.compile(torch.export.export(model, (image(20, 30),), dynamic_shapes=({**dims},)), backends=[])
    one, two = (edgecore.load(program.buffer, threads=threads) for threads in (1, 2))
    exact = copy.deepcopy(model).double()
    for size in ((64, 64), (5, 5), (9, 31), (40, 4), (33, 64), (12, 12), (64, 64)):
        x = image(*size)
        out = one.forward(x)
        with torch.no_grad():
            expected = exact(x.double())
        torch.testing.assert_close(out.double(), expected, rtol=0, atol=2e-6 * float(expected.abs().max()))
        assert torch.equal(out, two.forward(x))
