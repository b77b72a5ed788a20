"""Error bounds of the recipe checks: they hold for any errors of the inputs, and a wrong last row lies far beyond them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.fx import Interpreter

from edgecore.conformance.check import Failed
from edgecore.conformance.checks import recipes
from edgecore.numerics.bounds import Bounded, NoBound, bounded_eager
from edgecore.numerics.bounds.model import ErrorModel
from edgecore.numerics.rounding import quantized_eager
from edgecore.pipeline.preprocess import compiler_of
from edgecore.plugin import registry
from edgecore.quantize.apply_recipes import quantize_model
from edgecore.quantize.plan import make_plan

quantized = torch.ops.quantized_decomposed
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
        ErrorModel,
        "exact",
        lambda model, value: (
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


class _Layer(nn.Module):
    """A linear layer between integers of 8 bits, with a clamp."""

    SCALE = 0.05

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 8)

    def forward(self, x):
        def rounded(value):
            ends = (self.SCALE, 128, 0, 255, torch.uint8)
            return quantized.dequantize_per_tensor(quantized.quantize_per_tensor(value, *ends), *ends)

        return rounded(torch.relu(rounded(self.linear(rounded(x)))))


def test_declared_steps_widen_the_bounds_of_computed_results_by_so_many_and_no_more():
    torch.manual_seed(0)
    program, x = torch.export.export(_Layer(), (torch.randn(9, 16),)), torch.randn(9, 16)
    (exact,), (wide,) = (bounded_eager(program, [x], steps=steps) for steps in (0, 1))
    assert float((exact.error < 1e-4).float().mean()) > 0.9  # nearly no result is in the middle between two steps
    # One step for the linear layer, one for the clamp behind it; none for the input.
    torch.testing.assert_close(wide.error, exact.error + 2 * _Layer.SCALE)


class _Off:
    """Stands for a backend whose results are off by some steps."""

    def __init__(self, monkeypatch, steps: int) -> None:
        self.steps = steps
        monkeypatch.setattr(recipes, "run_calls", self.run)

    def run(self, subject, file, rows, description, environment):
        inputs = dict(np.load(file.with_suffix(".npz")))
        return {
            f"{number} 0": self.program.module()(torch.from_numpy(inputs[f"{number} 0"])).numpy()
            + np.float32(self.steps * _Layer.SCALE)
            for number in rows
        }

    def share(self, tmp_path, declared: int) -> float:
        torch.manual_seed(0)
        x = torch.randn(9, 16)
        self.program = torch.export.export(_Single(), (x,))
        quantized_program = SimpleNamespace(program=self.program, computes_in="float32")
        compiled = SimpleNamespace(quantized={"forward": quantized_program}, buffer=b"")
        case = recipes._Case(tmp_path / "case.pte", compiled, [x], [9], declared)
        return recipes._Recipe("int8", "linear", True, declared)._compare(None, case, "", {})


class _Single(_Layer):
    def forward(self, x):
        ends = (self.SCALE, 128, 0, 255, torch.uint8)
        integers = quantized.quantize_per_tensor(self.linear(x), *ends)
        return quantized.dequantize_per_tensor(integers, *ends)


@pytest.mark.parametrize(("off", "declared", "passes"), [(0, 0, True), (1, 0, False), (1, 1, True), (2, 1, False)])
def test_a_result_that_is_off_by_more_steps_than_declared_fails(off, declared, passes, tmp_path, monkeypatch):
    backend = _Off(monkeypatch, off)
    if passes:
        assert backend.share(tmp_path, declared) <= 1
    else:
        with pytest.raises(Failed, match="values differ from quantized eager by more than rounding explains"):
            backend.share(tmp_path, declared)


def test_inputs_on_steps_are_what_an_integer_stands_for_and_read_equally_in_half_precision():
    torch.manual_seed(0)
    program, x = torch.export.export(_Layer(), (torch.randn(9, 16),)), torch.randn(9, 16)
    (moved,) = recipes.on_steps(program, [x])
    assert float((moved - x).abs().max()) <= _Layer.SCALE / 2 + 1e-6
    module = program.module()
    assert torch.equal(module(moved), module(x)) and torch.equal(module(moved.half().float()), module(x))
    words = torch.tensor([1, 2])
    embedding = torch.export.export(nn.Embedding(4, 2), (words,))
    assert torch.equal(recipes.on_steps(embedding, [words])[0], words)


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


def test_an_operator_without_a_rule_has_no_bound():
    program = torch.export.export(nn.LogSigmoid(), (torch.ones(3),))
    with pytest.raises(NoBound, match="^no error bound for aten.log_sigmoid"):
        bounded_eager(program, [torch.ones(3)])


def test_equal_values_that_are_not_finite_agree_and_others_do_not():
    nan, inf = torch.nan, torch.inf
    want = Bounded(torch.tensor([nan, inf, 1.0]), torch.tensor([nan, inf, 1.0], dtype=torch.float64))
    assert recipes._share("here", torch.tensor([nan, inf, 1.5]), want).tolist() == [0, 0, 0.5]
    for value in (nan, inf):
        assert recipes._share("here", torch.tensor([nan, inf, value]), want)[2] > 1
    assert (recipes._share("here", torch.tensor([1.0, -inf, 1.0]), want)[:2] > 1).all()
