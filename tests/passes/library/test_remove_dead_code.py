"""Calls and constants without readers disappear."""

import torch
from edge_programs import edge_of, targets

from edgecore.ir.graph import calls, edit
from edgecore.passes import remove_dead_code

aten = torch.ops.aten


def test_calls_and_constants_without_readers_disappear_and_inputs_stay():
    program = edge_of(lambda s, x, y: x * s.weight + x.exp() * 0.5, torch.ones(3), torch.ones(3), weight=torch.ones(3))
    with edit(program) as graph_module:
        (add,) = calls(graph_module, aten.add.Tensor)
        product, rest = add.args
        add.replace_input_with(product, rest)
    program = remove_dead_code(program)
    assert targets(program) == [aten.exp.default, aten.mul.Scalar, aten.add.Tensor]
    assert not program.state_dict and len(program.graph_signature.user_inputs) == 2
