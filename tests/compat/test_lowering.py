"""`to_edge` and `to_edge_transform_and_lower` take ExecuTorch's arguments by position."""

from __future__ import annotations

import torch
from fake_backends import echo_backend  # noqa: F401

import edgecore
from edgecore.compat.lowering import to_backend, to_edge, to_edge_transform_and_lower
from edgecore.compat.pybindings import _load_for_executorch_from_buffer
from edgecore.pipeline import EdgeCompileConfig

X = torch.randn(1, 4)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.hardswish(x)


def exported():
    return torch.export.export(Model(), (X,))


def config():
    return EdgeCompileConfig(preserve_ops=[torch.ops.aten.hardswish.default])


def targets(edge):
    return [node.target for node in edge.exported_program().graph.nodes]


def test_to_edge_takes_constant_methods_and_settings_by_position():
    edge = to_edge(exported(), {"limit": 7}, config(), True)
    assert edge.get_etrecord() is not None and torch.ops.aten.hardswish.default in targets(edge)
    assert edgecore.load(to_edge(exported(), {"limit": 7}).to_executorch().buffer)["limit"]() == 7


def test_lowering_takes_passes_partitioners_and_constant_methods_by_position():
    seen = []

    def note(program):
        seen.append(program)
        return program

    edge = to_edge_transform_and_lower(exported(), [note], [], {"limit": 7}, config(), True)
    assert len(seen) == 1 and edge.config_methods == {"limit"} and torch.ops.aten.hardswish.default in targets(edge)
    to_edge_transform_and_lower(exported(), None, None)


def test_a_loaded_program_takes_one_tensor_and_writes_it():
    class Writes(torch.nn.Module):
        def forward(self, x):
            x.add_(1)

    program = to_edge(torch.export.export(Writes(), (torch.zeros(1),)))
    x = torch.zeros(1)
    assert _load_for_executorch_from_buffer(program.to_executorch().buffer)(x) == [torch.ones(1), None]
    assert torch.equal(x, torch.ones(1))


def test_to_backend_takes_the_names_of_arguments_that_executorch_has(echo_backend):  # noqa: F811
    edge = to_edge(exported()).exported_program()
    module = to_backend("EchoBackend", edge_program=edge, compile_specs=[])
    assert module.backend_id == "EchoBackend"
