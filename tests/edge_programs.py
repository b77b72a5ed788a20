"""Functions as models, their edge programs, and what they compute, for the tests of passes."""

import copy

import torch
from torch import nn

import edgecore
from edgecore.ir.dialect.verifier import verify
from edgecore.ir.graph import calls
from edgecore.pipeline import to_edge


class Model(nn.Module):
    """Calls `function(self, *args)`, which finds `modules` in `self.parts` and the others under their names."""

    def __init__(self, function, *modules, **parts):
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(modules)
        for name, part in parts.items():
            self.register_buffer(name, part) if isinstance(part, torch.Tensor) else self.add_module(name, part)

    def forward(self, *args):
        return self.function(self, *args)


class Function(nn.Module):
    """Calls a function of one input."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def inplace_chain(self, x):
    """A function for `export` that writes in place."""
    y = x + 1
    y.relu_()
    y.mul_(2)
    return y.sigmoid_() + y


def export(function, *inputs, modules=()):
    return torch.export.export(Model(function, *modules).eval(), inputs)


def edge_of(function, *inputs, **parts):
    """Lower a function to the edge dialect."""
    return to_edge(torch.export.export(Model(function, **parts).eval(), inputs)).exported_program()


def targets(program):
    return [node.target for node in calls(program.graph_module)]


def check(program, function, *inputs, **parts):
    """Verify the program, and compare what it computes with the function."""
    verify(program)
    expected = Model(function, **parts).eval()(*inputs)
    torch.testing.assert_close(program.module(check_guards=False)(*inputs), expected, atol=1e-5, rtol=1e-5)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)

    def forward(self, x):
        return torch.tanh(self.norm(self.conv(x)))


INPUTS = (torch.randn(1, 2, 5, 5),)


def net():
    torch.manual_seed(0)
    return Net().eval()


def agree(model, inputs, *, others=(), backends=(), dynamic_shapes=None):
    """Compile, then run on `inputs` and `others` in turn beside a fresh copy of the model."""
    model = model.eval()
    eager = copy.deepcopy(model)
    loaded = edgecore.load(edgecore.compile(model, inputs, backends=backends, dynamic_shapes=dynamic_shapes).buffer)
    for given in (inputs, *others):
        expected, got = eager(*given), loaded.forward(*given)
        expected = list(expected) if isinstance(expected, tuple) else [expected]
        torch.testing.assert_close(got if isinstance(got, list) else [got], expected, atol=1e-5, rtol=1e-4)
