"""Error bounds of the recipe checks: they hold for any errors of the inputs, and a wrong last row lies far beyond them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.fx import Interpreter

from edgecore.conformance import bounds, recipes
from edgecore.conformance.bounds import Bounded, bounded_eager
from edgecore.pipeline.preprocess import compiler_of
from edgecore.plugin import registry
from edgecore.quantize.plan import make_plan
from edgecore.quantize.recipe import quantize_model
from edgecore.quantize.rounding import quantized_eager

ROWS = 15  # the last row of a tile of 14 rows and one more
PROBES = 200


class _Attend(nn.Module):
    def __init__(self, is_causal: bool) -> None:
        super().__init__()
        self.is_causal = is_causal

    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)


class _Softmax(nn.Module):
    def forward(self, x):
        return torch.softmax(3 * x, -2)


class _MaskedSoftmax(nn.Module):
    """The middle of attention that a quantizer has taken apart."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("hidden", torch.ones(7, 16, dtype=torch.bool).triu(1))

    def forward(self, x):
        return torch.softmax((3 * x).masked_fill(self.hidden, -torch.inf), -1)


class _Norm(nn.Module):
    def forward(self, x):
        return nn.functional.layer_norm(x, (16,))


@pytest.mark.parametrize(
    "model, inputs",
    [(_Attend(False), 3), (_Attend(True), 3), (_Softmax(), 1), (_MaskedSoftmax(), 1), (_Norm(), 1)],
    ids=["attention", "causal attention", "softmax", "masked softmax", "layer norm"],
)  # fmt: skip
@pytest.mark.parametrize("error", [1e-3, 0.1])
def test_results_of_inputs_with_errors_lie_within_the_bound_and_come_near_it(model, inputs, error, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(1, 2, 7, 16, generator=generator) for _ in range(inputs)]
    program = torch.export.export(model, tuple(values))
    monkeypatch.setattr(
        bounds._Bounds,
        "exact",
        lambda run, value: (
            Bounded(value, torch.full_like(value, error, dtype=torch.float64))
            if isinstance(value, torch.Tensor)
            else value
        ),
    )
    (result,) = bounded_eager(program, values)
    largest = 0.0
    for _ in range(PROBES):
        moved = [one + error * torch.randn(one.shape, generator=generator).sign() for one in values]
        share = (model(*moved).double() - result.value.double()).abs() / result.error
        largest = max(largest, float(share.max()))
    assert 0.1 < largest <= 1


class _LastRowOfTheRowBefore(Interpreter):
    """Gives one linear layer's last row the result of the row before, as a kernel that reads past its parameters does."""

    def __init__(self, module, layer):
        super().__init__(module)
        self.layer = layer

    def run_node(self, node):
        result = super().run_node(node)
        if node is self.layer:
            result = torch.cat([result[:-1], result[-2:-1]])
        return result


@pytest.fixture(scope="module")
def attention():
    torch.manual_seed(0)
    return recipes.NETWORKS["attention"](quick=False).eval().requires_grad_(False)


@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic", "int4-weights", "fp16"])
def test_a_wrong_last_row_of_any_layer_of_attention_is_beyond_the_bounds_of(recipe, attention):
    pytest.importorskip("edgecore_xnnpack")
    inputs = tuple(one[:ROWS] for one in attention.example())
    plan = make_plan(recipe, {"xnnpack": compiler_of(registry.find_by_name("xnnpack"))})
    calibration = [inputs] if recipe == "int8" else None
    quantized = quantize_model(
        torch.export.export(attention, inputs), plan, calibration, None, "float16" if recipe == "fp16" else "float32"
    )
    results = bounded_eager(quantized.program, inputs, quantized.computes_in, by_row=True)
    for result in results:
        assert result.error.max() < 0.1 * result.value.abs().max()
    right = quantized_eager(quantized.program, quantized.computes_in, by_row=True)(*inputs)
    for made, want in zip(right, results, strict=True):
        assert ((made.double() - want.value.double()).abs() <= want.error).all()
    module = quantized.program.module()
    layers = [node for node in module.graph.nodes if node.target is torch.ops.aten.linear.default]
    assert len(layers) == 6
    for layer in layers:
        wrong = _LastRowOfTheRowBefore(module, layer).run(*inputs)
        beyond = [
            ((made.double() - want.value.double()).abs() / want.error)[-1].max() for made, want in zip(wrong, results)
        ]
        assert max(beyond) > 1, (layer.name, beyond)
