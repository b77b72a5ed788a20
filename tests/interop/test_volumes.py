"""Convolution, pooling and sampling of volumes on executorch's runtime, whose own kernels have at most two spatial dims."""

from functools import partial

import pytest
import torch
from small_models import Call
from torch.nn.functional import grid_sample
from volumes import LAYERS, VOLUME

import edgecore

runtime = pytest.importorskip("executorch.runtime", reason="executorch, the peer, is not installed")


@pytest.mark.parametrize("name", LAYERS)
def test_layer_of_volumes_runs_on_both_runtimes(name):
    program = edgecore.compile(LAYERS[name].eval(), (VOLUME,))
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))  # its methods do not keep it alive
    (theirs,) = loaded.load_method("forward").execute([VOLUME])
    with torch.no_grad():
        want = LAYERS[name](VOLUME)
    for got in (theirs, edgecore.load(program.buffer).forward(VOLUME)):
        assert got.shape == want.shape
        assert float((got - want).abs().max()) <= 1e-6 * float(want.abs().max())


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_samples_of_volumes_run_on_both_runtimes(mode, padding, align_corners):
    torch.manual_seed(0)
    model = Call(partial(grid_sample, mode=mode, padding_mode=padding, align_corners=align_corners)).eval()
    inputs = torch.randn(2, 3, 4, 5, 7), torch.randn(2, 3, 4, 6, 3) * 1.5
    inputs[1][0, 0, 0] = torch.tensor([[-1, -1, 1], [1, 1, 1], [0, 0, 0], [4, -3, 2], [1, -1, -1], [0, 1, -1]])
    program = edgecore.compile(model, inputs, backends=[])
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))
    (theirs,) = loaded.load_method("forward").execute(inputs)
    own = edgecore.load(edgecore.compile(model, inputs, backends=[], runtime="edgecore").buffer).forward(*inputs)
    for got in (theirs, edgecore.load(program.buffer).forward(*inputs), own):
        torch.testing.assert_close(got, model(*inputs))
