"""Models with a cache, and a partitioner that claims it, for the tests of mutable buffers that backends hold."""

from unittest.mock import patch

import torch
from fake_backends import compiles
from torch import nn

from edgecore.partition import CapabilityPartitioner
from edgecore.pipeline import EdgeProgramManager
from edgecore.pipeline.lowering import LowerOptions, lower

aten = torch.ops.aten
X = torch.arange(8.0).reshape(2, 4)


class Cached(nn.Module):
    """A module with a cache; the methods are functions of the module and an input."""

    def __init__(self, function, cache=None):
        super().__init__()
        self.function = function
        self.register_buffer("cache", torch.arange(4.0) if cache is None else cache)

    def forward(self, x):
        return self.function(self, x)


def fill(self, x):
    """Write the cache, and read the new content."""
    self.cache.copy_(self.cache * 2 + x[0])
    return self.cache + x


def read(self, x):
    return x * self.cache


def read_twice(self, x):
    return torch.sin(x * self.cache) - self.cache


def write(self, x):
    self.cache.copy_(x[0] * 2)
    return x + 1


def count(self, x):
    """Change the cache, and return nothing that depends on it."""
    self.cache.add_(1)
    return torch.sin(x)


def assign_input(self, x):
    self.cache.copy_(x)
    return x * self.cache


def sine_of_cache(self, x):
    return torch.sin(self.cache) + x


def written_elsewhere(self, x):
    self.cache.copy_(torch.sin(self.cache * x[0]))
    return x + 1


def unsupported(*targets):
    return lambda program: lambda node: "not supported" if node.target in targets else None


def holder(name="Acme", *, outside=(aten.sin.default,), can_hold=lambda buffer: True):
    """Make a partitioner that supports all but the operators `outside`, and claims what it can."""
    return CapabilityPartitioner(name, unsupported(*outside), can_hold=can_hold)


def compile_(methods, *partitioners, inputs=(X,), preprocess=compiles, **options):
    """Lower methods, which are functions or modules, with the given partitioners and a fake backend."""
    modules = {name: method if isinstance(method, nn.Module) else Cached(method) for name, method in methods.items()}
    exported = {name: torch.export.export(module.eval(), inputs) for name, module in modules.items()}
    partitioner = options.pop("partitioner", list(partitioners))
    with (
        patch("edgecore.pipeline.lowering.lower_programs.preprocess", preprocess),
        patch("edgecore.pipeline.lowering.lower_programs.link", None),
    ):
        return EdgeProgramManager.of(lower(exported, partitioner, LowerOptions(**options)))


def holders(edge):
    return {row.name: (row.where, row.methods) for row in edge.report().buffers}


def reason(edge):
    """Return the only reason why the cache is outside."""
    (row,) = edge.report().buffers
    assert row.where == "edgecore"
    ((_, sentence),) = row.reasons
    return sentence


def run(edge, method, *inputs):
    return edge.exported_program(method).module(check_guards=False)(*inputs)
