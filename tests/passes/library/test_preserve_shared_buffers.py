"""Buffers that another method writes stay mutable in the methods that only read them."""

import torch
from edge_programs import Model

from edgecore.ir.program.copying import copy_program
from edgecore.passes.library.functionalize import functionalize
from edgecore.passes.library.preserve_shared_buffers import preserve_shared_buffers


def reader():
    model = Model(lambda s, x: x + s.state, state=torch.ones(3), table=torch.ones(3))
    return functionalize(copy_program(torch.export.export(model.eval(), (torch.ones(3),))))


def test_a_buffer_that_is_only_read_becomes_mutable_where_another_method_writes_it():
    program = preserve_shared_buffers(reader(), {"state"})
    assert list(program.graph_signature.buffers_to_mutate.values()) == ["state"]
    assert torch.equal(program.module(check_guards=False)(torch.ones(3)), torch.full((3,), 2.0))


def test_other_buffers_and_buffers_without_readers_stay_constant():
    for written in ({"other"}, {"table"}):
        assert not preserve_shared_buffers(reader(), written).graph_signature.buffers_to_mutate
