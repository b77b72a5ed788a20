"""Lowering to the edge dialect leaves the user's program alone."""

import torch
from edge_programs import export

from edgecore.pipeline import to_edge


def inplace_chain(self, x):
    y = x + 1
    y.relu_()
    y.mul_(2)
    return y.sigmoid_() + y


def test_the_users_program_is_left_alone():
    program = export(inplace_chain, torch.randn(3, 4))
    before = program.graph_module.code
    to_edge(program)
    assert program.graph_module.code == before
