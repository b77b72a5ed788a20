"""Methods that only return a value."""

import torch
from torch import nn

import edgecore


def test_constant_methods_return_the_values_they_were_given():
    values = {
        "vocabulary": 32000, "ratio": 0.5, "causal": True, "sizes": [1, 2], "none_of_it": [],
        "table": torch.arange(6.0).reshape(2, 3),
    }  # fmt: skip
    program = edgecore.compile(nn.ReLU().eval(), (torch.ones(4),), constant_methods=values)
    assert program.config_methods == set(values)
    model = edgecore.load(program.buffer)
    assert model["vocabulary"]() == 32000
    assert model["ratio"]() == 0.5
    assert model["causal"]() is True
    assert model["sizes"]() == [1, 2]
    assert model["none_of_it"]() == []
    assert memoryview(model["table"]()).tolist() == values["table"].tolist()
