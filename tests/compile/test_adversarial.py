"""Small models that once compiled to a wrong file, hung, or gave an unclear error: equal to eager on our runtime."""

import pytest
import torch
from edge_programs import agree
from small_models import Call
from torch import nn

import edgecore

functional = nn.functional
IMAGE = torch.linspace(-2, 2, 96).reshape(2, 3, 4, 4)
VECTOR = torch.tensor([1.0, -2.0, 3.0, -4.0])


FUNCTIONS = {
    "number in a tensor slot": (lambda x: (torch.div(x, 2, rounding_mode="floor"), x // 2, 2 / x, 2**x), VECTOR),
    "shift": (lambda x: (x << 1, x >> 1), torch.arange(4)),
    "instance norm": (functional.instance_norm, IMAGE),
    "norm": (lambda x: (x.norm(), functional.normalize(x, dim=1)), IMAGE),
    "alias of type_as": (lambda x: (y := x * 1, y.type_as(x).add_(1))[0], VECTOR),
    "an input and one result twice": (lambda x: (y := x + 1, y, x, x), VECTOR),
    "axis of size one moved by a composite": (
        lambda x: (y := x.permute(0, 2, 3, 1).reshape(2, 16, 1, 3).swapaxes(1, 2), y + functional.relu(y))[1],
        IMAGE,
    ),
    "hardtanh, bounds reversed": (lambda x: torch.ops.aten.hardtanh(x, 1, -1), VECTOR),
    "no inputs": (lambda x: x + torch.arange(4, dtype=torch.float32) * 2 + torch.full((4,), 3.0), VECTOR),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_once_failed_equals_eager(name):
    function, x = FUNCTIONS[name]
    agree(Call(function), (x,))


def test_lstm_is_decomposed_into_plain_operators():
    torch.manual_seed(0)
    model = nn.LSTM(5, 6, 2, batch_first=True)
    agree(Call(lambda x: model.eval()(x)[0]), (torch.randn(1, 3, 5),))


class Swap(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.tensor([1.0, 2.0]))
        self.register_buffer("b", torch.tensor([3.0, 4.0]))

    def forward(self, x):
        old = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(old)
        return self.a * x, self.b


def test_two_buffers_may_swap_their_content():
    x = torch.ones(2)
    agree(Swap(), (x,), others=[(x,), (x,)])


SIZES = ({0: torch.export.Dim("batch", min=1, max=8), 1: torch.export.Dim("length", min=2, max=10)},)
DYNAMIC = {
    "sizes as numbers": lambda x: (x + x.shape[1], x / x.shape[0], torch.full((x.shape[1],), x.shape[0])),
    "expand": lambda x: torch.ones(1, 1, 2, 3).expand(x.shape[0], 2, 2, 3) * 1,
    "matmul of four dimensions": lambda x: x[:, None] @ x[:, None].transpose(-1, -2),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_symbolic_sizes_never_become_literals(name):
    others = [(torch.randn(1, 2, 4),), (torch.randn(8, 10, 4),)]
    agree(Call(DYNAMIC[name]), (torch.randn(3, 6, 4),), others=others, dynamic_shapes=(SIZES,))


def test_outputs_of_delegates_are_the_callers_buffers():
    pytest.importorskip("edgecore_xnnpack")
    program = edgecore.compile(nn.ReLU().eval(), (VECTOR,), backends=["xnnpack"])
    plan = program.pte.program.execution_plan[0]
    assert plan.values[plan.outputs[0]].val.allocation_info is None


MOVED = {
    "clone": lambda x: (x.relu(), x.clone()),
    "view": lambda x: (x.relu(), x.view(2, 2)),
    "concatenation that begins with an input": lambda x: torch.cat([x, x.relu()]),
    "results that view a result": lambda x: (y := x + 1, y.view(2, 2), y.view(4, 1)),
}


@pytest.mark.parametrize("name", MOVED)
def test_outputs_of_a_delegate_that_only_move_data_equal_eager(name):
    pytest.importorskip("edgecore_xnnpack")
    agree(Call(MOVED[name]), (VECTOR,), backends=["xnnpack"])


def test_a_channels_last_input_may_be_permuted_to_an_output_of_a_delegate():
    pytest.importorskip("edgecore_xnnpack")
    x = IMAGE.to(memory_format=torch.channels_last)
    agree(Call(lambda x: (x * 2, x.permute(0, 2, 3, 1))), (x,), backends=["xnnpack"])
