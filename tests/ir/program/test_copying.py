"""Copies of exported programs that may be edited."""

import torch
from edge_programs import Model, export

from edgecore.ir.graph import calls, edit
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.copying import buffer_of, copy_program

aten = torch.ops.aten


def test_a_copy_may_be_edited_without_a_change_of_the_original():
    program = export(lambda s, x: x.sin() + 1, torch.ones(2))
    copy = copy_program(program)
    with edit(copy) as graph_module:
        calls(graph_module, aten.sin.default)[0].target = aten.cos.default
    assert [node.target for node in calls(program.graph_module)] == [aten.sin.default, aten.add.Tensor]
    x = torch.tensor([0.5, 1.0])
    assert torch.equal(program.module()(x), x.sin() + 1)
    assert torch.equal(copy.module(check_guards=False)(x), x.cos() + 1)


def test_a_copy_shares_the_tensors_of_the_original():
    program = torch.export.export(Model(lambda s, x: x * s.weight, weight=torch.ones(3)).eval(), (torch.ones(3),))
    copy = copy_program(program)
    assert buffer_of(copy, "weight") is buffer_of(program, "weight")
    copy.state_dict.clear()
    assert list(program.state_dict) == ["weight"]


def test_an_added_constant_has_a_qualified_name():
    program = copy_program(export(lambda s, x: x + 1, torch.ones(2)))
    constants = Constants(program)
    with edit(program) as graph_module:
        (add,) = calls(graph_module)
        for name in ("layers.0.weight", "layers.0.weight", "layers_0_weight"):
            node = constants.add(name, torch.full((2,), 5.0))
        add.args = (add.args[0], node)
    assert list(program.state_dict) == ["layers.0.weight", "layers.0.weight_1", "layers_0_weight_2"]
    assert torch.equal(program.module(check_guards=False)(torch.ones(2)), torch.full((2,), 6.0))
