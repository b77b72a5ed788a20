"""Whole networks without any backend, on the core's own kernels, at small sizes."""

import pytest
import torch
from zoo import make, other_inputs

import edgecore

SMALLER = {
    "shufflenet_v2_x1_0": lambda x: x[..., :96, :96],
    "convnext_tiny": lambda x: x[..., :64, :64],
    "deeplabv3_mobilenet_v3_large": lambda x: x[..., :64, :64],
    "unet": lambda x: x[..., :64, :64],
    "speech_lstm": lambda x: x[:, :5],
    "bert_mini": lambda x: x[:, :16],
}
"""One network of each kind, and the part of its input that is enough."""


@pytest.mark.parametrize("name", SMALLER)
def test_network_without_a_backend_equals_eager(name):
    if name == "bert_mini":
        pytest.importorskip("transformers")
    model, inputs = make(name)
    inputs = tuple(SMALLER[name](x).contiguous() for x in inputs)
    loaded = edgecore.load(edgecore.compile(model, inputs, backends=[]).buffer)
    for given in (inputs, other_inputs(inputs)):
        with torch.no_grad():
            expected = model(*given)
        assert float((loaded.forward(*given) - expected).abs().max()) <= 1e-4 * float(expected.abs().max())
