"""Files with a loss and its gradients on executorch's runtime, and files of executorch on edgecore's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from one_call import run_on_edgecore, run_on_executorch
from torch import nn
from torch.export.experimental import _export_forward_backward

import edgecore

pytest.importorskip("executorch.runtime", reason="executorch, the peer, is not installed")


class Net(nn.Module):
    """Two convolutions: the first needs no gradient of its input, the second has no bias."""

    def __init__(self, more: bool) -> None:
        super().__init__()
        self.first, self.second, self.more = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 3, bias=False), more

    def forward(self, x, y):
        result = self.second(F.relu(self.first(x)))
        loss = F.mse_loss(result.flatten(1)[:, :2], y)
        return (loss, result.detach()) if self.more else loss


@pytest.fixture(params=[False, True], ids=["a loss alone", "a loss and a result"])
def joint(request):
    torch.manual_seed(0)
    model, x, y = Net(request.param), torch.randn(2, 3, 8, 8), torch.randn(2, 2)
    program = _export_forward_backward(torch.export.export(model, (x, y), strict=True))
    result = model(x, y)
    results = list(result) if request.param else [result]
    return program, (x, y), [*results, *torch.autograd.grad(results[0], list(model.parameters()))]


def assert_gives(results, expected):
    for result, value in zip(results, expected, strict=True):
        torch.testing.assert_close(result, value.detach(), rtol=1e-4, atol=1e-6)


def test_executorch_runs_the_file_of_a_loss_and_its_gradients(joint):
    program, inputs, expected = joint
    assert_gives(run_on_executorch(edgecore.to_edge(program).to_executorch().buffer, inputs), expected)


def test_the_file_of_executorch_has_the_same_outputs_before_its_parameters(joint):
    from executorch.exir import to_edge

    program, inputs, expected = joint
    results = run_on_edgecore(to_edge(program).to_executorch().buffer, inputs)
    parameters = [results[len(expected) + index] for index in range(3)]
    assert [value.shape for value in parameters] == [(4, 3, 3, 3), (4,), (2, 4, 3, 3)]
    assert_gives(results[: len(expected)], expected)
