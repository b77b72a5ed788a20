"""Networks for partitioners, and the steps of a backend that works, or fails at a known line."""

import pytest
import torch
from pydantic import BaseModel
from torch import nn

from edgecore.partition import CapabilityPartitioner, PartitionDiagnostics, to_backend
from edgecore.pipeline import to_edge
from edgecore.plugin import BackendInfo, PreprocessResult, hookimpl, registry

aten = torch.ops.aten


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return torch.tanh(self.conv(x) * 2)


class Network(nn.Module):
    """Two convolutions, with a sine between them that `no_sin` leaves outside."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Layer(), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return torch.relu(self.second(torch.sin(self.first(x))))


class Zigzag(nn.Module):
    """Two branches that leave the backend (sin) and come back."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x, y):
        a = x + self.weight
        b = torch.sin(a) * 2
        c = y * 3 + a
        return b + c, c


CALL_OF_CONV = f"module first.conv, {__file__}:{Layer.forward.__code__.co_firstlineno + 1}"
INPUT = (torch.linspace(-1, 1, 75).reshape(1, 3, 5, 5),)


def exported():
    torch.manual_seed(0)
    return torch.export.export(Network().eval(), INPUT)


def edge():
    """Lower the network to the edge dialect."""
    return to_edge(exported()).exported_program()


def zigzag():
    return to_edge(torch.export.export(Zigzag(), (torch.randn(4), torch.randn(4)))).exported_program()


def no_sin(program):
    return lambda node: "sin is not supported" if node.target is aten.sin.default else None


def compiles(backend_id, program, specs):
    return PreprocessResult(b"blob"), ("fake", "1")


def delegate(program, partitioner, preprocess=compiles, diagnostics=None, *, required=False):
    """Delegate what the partitioner chooses in a program of one method."""
    (lowered,) = to_backend(
        {"forward": program},
        {"forward": partitioner},
        preprocess,
        {"forward": PartitionDiagnostics() if diagnostics is None else diagnostics},
        required=[partitioner] if required else [],
    ).values()
    return lowered


def lower(program, partitioner, preprocess=compiles):
    """Delegate what the partitioner chooses: the program, and the reasons for the rest."""
    diagnostics = PartitionDiagnostics()
    return delegate(program, partitioner, preprocess, diagnostics), diagnostics


def fails_at_convolutions(backend_id, program, specs):
    for node in program.graph.nodes:
        if node.target is aten.convolution.default:
            [].pop(len(program.graph.nodes))
    return compiles(backend_id, program, specs)


def picture(program):
    """Record the parts of a program that a backend must not change."""
    nodes = [(node.name, node.op, node.target, str(node.args), set(node.meta)) for node in program.graph.nodes]
    return nodes, {name: tensor.clone() for name, tensor in program.state_dict.items()}


def assert_unchanged(program, before):
    nodes, weights = picture(program)
    assert nodes == before[0]
    assert weights.keys() == before[1].keys()
    assert all(torch.equal(weights[name], before[1][name]) for name in weights)
    torch.testing.assert_close(program.module(check_guards=False)(*INPUT), exported().module()(*INPUT))


class EchoCompiler:
    """The compiler of a backend that exists in the process of a test only: the blob lists the operators."""

    class Options(BaseModel):
        pass

    def partitioner(self, options, *, runtime):
        return CapabilityPartitioner("EchoBackend", lambda program: lambda node: None)

    def preprocess(self, program, specs):
        if any(node.target is aten.sin.default for node in program.graph.nodes):
            raise ValueError("sin is not supported")
        names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
        return PreprocessResult("\n".join([*names, *(spec.key for spec in specs)]).encode())

    def operator_support(self):
        return []

    def verify_blob(self, blob, named_data, *, runtime):
        return []


class SilentCompiler:
    """A compiler that only has the methods that every compiler has; nobody calls them."""

    Options = object

    def partitioner(self):
        raise NotImplementedError

    preprocess = operator_support = verify_blob = check = partitioner


class EchoPackage:
    """What `edgecore.plugin.register` needs of the package of a backend."""

    __name__ = "fake_backends"

    @staticmethod
    @hookimpl
    def edgecore_backends():
        compiler = "fake_backends:EchoCompiler"
        return [BackendInfo(name="echo", backend_id="EchoBackend", summary="lists operators", compiler=compiler)]


@pytest.fixture
def echo_backend(monkeypatch):
    """The partitioner of `EchoBackend`, which is installed for one test."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))
    registry.register(EchoPackage())
    return EchoCompiler().partitioner(None, runtime="")
