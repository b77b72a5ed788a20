"""A layer whose products are tiny beside its bias keeps its bias and its products in one unit."""

import torch
from torch import nn

import edgecore


def test_raised_scales_leave_the_products_of_a_wide_layer_as_small_as_they_are():
    layer, x = nn.Linear(16384, 2).eval(), (torch.ones(1, 16384),)
    with torch.no_grad():
        layer.weight.fill_(-1e-12)
        layer.bias.fill_(1.0)
    program = edgecore.compile(layer, x, backends=[], runtime="edgecore", quantize="int8", calibration=[x])
    torch.testing.assert_close(torch.as_tensor(edgecore.load(program.buffer).forward(*x)), layer(*x), rtol=0.01, atol=0)
