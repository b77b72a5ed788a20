"""LSTM and GRU: one delegate, whatever the layers, directions and states."""

from __future__ import annotations

import pytest
import torch
from lowered import check, compiled, kinds, refusals

T, B, I, H = 6, 2, 5, 4

VARIANTS = {
    "plain": {},
    "two layers": {"num_layers": 2},
    "both directions": {"bidirectional": True, "num_layers": 2},
    "batch first": {"batch_first": True},
    "no bias": {"bias": False},
}


class Layer(torch.nn.Module):
    """All results of a recurrent layer; one output of torch.export each."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor, *states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = () if not states else (states if len(states) > 1 else states[0],)
        output, last = self.layer(x, *given)
        return (output, *last) if isinstance(last, tuple) else (output, last)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_a_recurrent_layer_is_one_delegate_and_equals_eager(kind: type[torch.nn.Module], name: str) -> None:
    layer = Layer(kind(I, H, **VARIANTS[name]))
    shape = (B, T, I) if "batch_first" in VARIANTS[name] else (T, B, I)
    check(layer, torch.randn(shape))


@pytest.mark.parametrize("kind, states", [(torch.nn.LSTM, 2), (torch.nn.GRU, 1)])
def test_states_of_a_recurrent_layer_may_be_inputs(kind: type[torch.nn.Module], states: int) -> None:
    check(Layer(kind(I, H, 2)), torch.randn(T, B, I), *(torch.randn(2, B, H) for _ in range(states)))


def test_a_recurrent_layer_without_a_batch_equals_eager() -> None:
    check(Layer(torch.nn.LSTM(I, H)), torch.randn(T, I))


def test_inputs_of_all_steps_are_one_matmul() -> None:
    """The first step has no product: its state is zero."""
    counts = kinds(compiled(torch.nn.LSTM(I, H), torch.randn(T, B, I)))
    assert counts["FullyConnected"] == 1 + (T - 1)


@pytest.mark.parametrize(
    "layer, x, reason",
    [
        (torch.nn.LSTM(I, H, proj_size=2), torch.randn(T, B, I), "projected states (proj_size)"),
        (torch.nn.GRU(I, H), torch.randn(513, 1, I), "513 steps"),
    ],
)
def test_recurrent_layers_outside_are_reported_with_their_reason(
    layer: torch.nn.Module, x: torch.Tensor, reason: str
) -> None:
    """A layer that is refused is decomposed, and its parts are delegated."""
    from edgecore_xnnpack.operators import TABLE

    exported = torch.export.export(layer.eval(), (x,))
    check_node = TABLE.unsupported_reasons(exported, is_decomposed=False)
    reasons = [check_node(node) for node in exported.graph.nodes if str(node.target).endswith(".input")]
    assert reasons == [reason]
    if x.shape[0] == T:
        assert refusals(layer, x) == {}
