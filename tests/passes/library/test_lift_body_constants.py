"""Constants of branches and loop bodies become constants of the program."""

import pytest
import torch
from edge_programs import Model

import edgecore
from edgecore.ir.control_flow import graph_modules
from edgecore.passes.library.lift_body_constants import lift_body_constants


def branches(self, x):
    def positive(a):
        b = a * 2
        b[0] = 7
        return b + torch.tensor([1.0, 2.0, 3.0, 4.0])

    return torch.cond(x.sum() > 0, positive, lambda a: a + torch.tensor(2.0), (x,))


def branches_in_branches(self, x):
    def positive(a):
        return torch.cond(
            a.max() > 1, lambda b: b * torch.tensor(3.0), lambda b: b - torch.tensor([1.0, 0.0, 0.0, 5.0]), (a,)
        )

    return torch.cond(x.sum() > 0, positive, lambda a: a.clone(), (x,))


def branches_without_operands(self, x):
    return x + torch.cond(x.sum() > 0, lambda: torch.tensor([3.0]), lambda: torch.zeros(1), ())


def loops(self, x):
    def step(count, a):
        return count + torch.tensor(2), a * torch.tensor([1.0, 2.0, 1.0, 0.5])

    count, result = torch._higher_order_ops.while_loop(
        lambda count, a: count < torch.tensor(5), step, (torch.tensor(0), x + 0)
    )
    mapped = torch._higher_order_ops.map(lambda row: row + torch.tensor([1.0, 1.0, 2.0, 2.0]), x)
    total, rows = torch._higher_order_ops.scan(
        lambda carry, row: (carry + row * torch.tensor(0.5), row - torch.tensor(1.0)), x[0] * 0, x
    )
    return count, result, mapped, total, rows


@pytest.mark.parametrize("function", [branches, branches_in_branches, branches_without_operands, loops])
def test_constants_of_bodies_keep_their_values(function):
    model, x = Model(function).eval(), torch.tensor([[0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0, 4.0]])
    program = torch.export.export(model, (x,))
    loaded = edgecore.load(edgecore.compile(program).buffer)
    for value in (x, -x, x / 9):
        want = model(value)
        got = loaded.forward(value)
        torch.testing.assert_close(tuple(got) if isinstance(want, tuple) else got, want)


def test_bodies_capture_the_constants_of_the_program():
    program = lift_body_constants(torch.export.export(Model(branches), (torch.randn(2, 4),)))
    _, *bodies = graph_modules(program.graph_module)
    assert not any(node.op == "get_attr" for body in bodies for node in body.graph.nodes)
    constants = {tuple(value.flatten().tolist()) for value in program.state_dict.values()}
    assert constants >= {(1.0, 2.0, 3.0, 4.0), (2.0,)}  # torch before 2.15 stores the 7 of `positive` as a tensor, too
