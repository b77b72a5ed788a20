"""Convolution and pooling of volumes on executorch's runtime, whose own convolution has at most two spatial dims."""

import pytest
import torch
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
