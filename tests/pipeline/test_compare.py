"""`program.compare(model, inputs)`: the file's outputs beside eager's, and what it says of a runtime that is wrong."""

import math
import warnings

import pytest
import torch
from small_models import Counter
from torch import nn

import edgecore
from edgecore import runtime
from edgecore.errors import BackendError, CompileError, QuantizationWarning
from edgecore.pipeline.bundled import eager_suite
from edgecore.pipeline.compare import Comparison, _row

X = torch.randn(15, 64, generator=torch.Generator().manual_seed(0))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).eval()


def compiled(recipe=None, backend="xnnpack", model=None):
    pytest.importorskip("edgecore_xnnpack")
    calibration = [X, X.flip(0)] if recipe == "int8" else None
    return edgecore.compile(model or network(), (X,), backends=[backend], quantize=recipe, calibration=calibration)


def test_a_float_program_agrees_with_eager_on_the_example_inputs():
    program = edgecore.compile(network(), (X,))
    found = program.compare(network())
    (row,) = found.rows
    assert found.ok and not row.exceeded
    assert (row.method, row.output, row.input, row.shape, row.dtype) == ("forward", "0", 0, (15, 32), "float32")
    assert row.quantized is None and row.eager.relative < 1e-5 and row.eager.sqnr > 100
    assert str(found).startswith("comparison: the runtime agrees with eager")


@pytest.mark.parametrize("recipe, loss", [("int8", 25), ("int8-dynamic", 30), ("int4-weights", 15), ("fp16", 50)])
def test_the_loss_of_a_recipe_and_the_error_of_the_runtime_are_reported_apart(recipe, loss):
    found = compiled(recipe).compare(network(), [X, X * 0.5])
    (row,) = found.rows
    assert found.ok, found
    assert loss < row.eager.sqnr < 80
    if recipe == "fp16":
        assert row.quantized.relative < 0.01
    elif recipe == "int8":
        assert row.quantized.largest < 1.5 * row.step  # a value between two steps may be rounded to either
    else:
        assert row.quantized.relative < 1e-5
    assert "against float eager" in str(row) and "against quantized eager" in str(row)


class Wrong:
    """A method that is right, but for the last row from 15 to 17 rows, as a kernel was whose tile had 14."""

    def __init__(self, method):
        self.method = method

    def __call__(self, *inputs):
        made = self.method(*inputs)
        if 15 <= made.shape[0] <= 17:
            made[-1] = made[-1].flip(0) * 1.5
        return made


@pytest.mark.parametrize("recipe", [None, "int8", "int8-dynamic", "int4-weights", "fp16"])
def test_a_wrong_last_row_is_shown_with_its_place(recipe, monkeypatch):
    program = compiled(recipe)
    load = runtime.load
    monkeypatch.setattr(
        "edgecore.pipeline.compare.runtime.load", lambda *a, **k: {"forward": Wrong(load(*a, **k).forward)}
    )
    found = program.compare(network())
    assert not found.ok
    (row,) = found.rows
    assert row.exceeded and row.own.index[0] == 14
    reference = "quantized eager" if recipe else "eager"
    assert f"the runtime differs from {reference} by more than expected in 1 of 1 output" in str(found)
    assert "worst: forward, output 0, at [14, " in found.verdict


def test_a_weight_that_was_patched_in_the_file_is_shown(monkeypatch):
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, x):
            return {"sum": x + 1, "logits": self.inner(x)}

    program = edgecore.compile(Last().eval(), (X,))
    other = Last().eval()
    other.inner[2].bias.data[7] += 0.1
    found = edgecore.compile(other, (X,)).compare(Last().eval())
    assert program.compare(Last().eval()).ok and not found.ok
    assert [(row.output, row.exceeded) for row in found.rows] == [("logits", True), ("sum", False)]
    assert found.rows[0].eager.index[1] == 7 and abs(found.rows[0].eager.largest - 0.1) < 1e-4


def test_the_worst_of_several_inputs_is_named():
    class Reads(nn.Module):
        def forward(self, x):
            return x * 2 if not torch.compiler.is_exporting() else x * 2 + (x == 5)

    program = edgecore.compile(Reads().eval(), (torch.zeros(3),))
    calls = [torch.zeros(3), (torch.tensor([1.0, 5.0, 2.0]),), torch.ones(3)]
    found = program.compare(Reads().eval(), calls)
    assert [(row.input, row.eager.index) for row in found.rows] == [(1, (1,))]
    assert "(input 1)" in str(found)


def test_several_methods_have_rows_each_and_an_unknown_one_is_an_error():
    models = {"encode": network(), "halve": nn.Identity().eval()}

    class Half(nn.Module):
        def forward(self, x):
            return x / 2

    models["halve"] = Half().eval()
    program = edgecore.compile(models, {"encode": (X,), "halve": (torch.ones(4),)})
    assert {row.method for row in program.compare(models).rows} == {"encode", "halve"}
    inputs = {"encode": X * 2, "halve": [torch.ones(4), torch.zeros(4)]}
    assert program.compare(models, inputs).ok
    assert [row.method for row in program.compare({"halve": Half().eval()}).rows] == ["halve"]
    with pytest.raises(CompileError, match="no method 'decode' to compare; the program has encode, halve"):
        program.compare({"decode": Half()})


def test_integers_must_be_equal_and_names_of_nested_outputs_are_kept():
    class Top(nn.Module):
        def forward(self, x):
            return {"best": x.argmax(-1), "parts": [x + 1, (x - 1,)]}

    found = edgecore.compile(Top().eval(), (X,)).compare(Top().eval())
    assert found.ok and {row.output for row in found.rows} == {"best", "parts.0", "parts.1.0"}
    assert next(row for row in found.rows if row.output == "best").bound == 0


def test_a_comparison_leaves_the_state_of_the_model_as_it_was():
    model = Counter().eval()
    program = edgecore.compile(model, (torch.zeros(2),))
    exported = torch.export.export(model, (torch.zeros(2),))
    for compared in (model, exported, model, exported):
        assert program.compare(compared, [torch.zeros(2)] * 3).ok
        eager_suite("forward", compared, torch.zeros(2))
    assert model.count.item() == 0
    assert exported.state_dict["count"].item() == 0


def test_a_model_that_rounds_by_itself_is_compared_within_its_roundings():
    quantization = pytest.importorskip("torchao.quantization")
    from torchao.quantization.granularity import PerGroup

    model = network()
    config = quantization.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32)
    )
    quantization.quantize_(model, config)
    found = compiled(model=model).compare(model)
    assert found.ok, found
    assert found.rows[0].quantized is None and found.rows[0].eager.relative < 1e-2


def test_a_tolerance_replaces_the_bound_of_a_backend_that_computes_in_fp16():
    program = compiled(backend=edgecore.Backend("xnnpack", force_fp16=True))
    model = network()
    for layer in (model[0], model[2]):
        layer.weight.data *= 8
    program = compiled(backend=edgecore.Backend("xnnpack", force_fp16=True), model=model)
    error = program.compare(model).rows[0].eager.relative
    assert not program.compare(model, tolerance=error / 2).ok
    assert program.compare(model, tolerance=error * 2).ok
    assert program.computes_in == "float16" and program.compare(model).ok


def test_a_backend_that_cannot_run_here_is_one_sentence(monkeypatch):
    from edgecore.plugin import BackendInfo, registry

    program = compiled()
    info = registry.find("XnnpackBackend")
    absent = BackendInfo(name="xnnpack", backend_id=info.backend_id, summary="", compiler=info.compiler)
    monkeypatch.setattr(registry, "find", lambda *_: absent)
    with pytest.raises(BackendError, match="compiles only") as caught:
        program.compare(network())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", [[], 3])
def test_inputs_of_another_kind_are_an_error(given):
    with pytest.raises(CompileError, match="a tuple with one entry per argument, a tensor, or a list of these"):
        edgecore.compile(network(), (X,)).compare(network(), given)


def test_a_recipe_that_leaves_little_of_an_output_warns():
    pytest.importorskip("edgecore_xnnpack")
    outlier = X.clone()
    outlier[0, 0] = 3000.0  # one step of the input is 12 then
    small = (X * 0.1,)
    with pytest.warns(
        QuantizationWarning, match=r"less than 10 dB of 1 of 1 outputs \(forward, output 0 .* dB\)"
    ) as told:
        program = edgecore.compile(
            network(), small, backends=["xnnpack"], quantize="int8", calibration=[small, (outlier,)]
        )
    assert told[0].filename == __file__
    with pytest.warns(QuantizationWarning) as told:
        assert program.compare(network()).ok
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", QuantizationWarning)
        compiled("int8").compare(network())


def test_an_error_that_is_not_finite_never_agrees():
    """Here noise moves the same element to infinity, which made the bound infinite."""
    nan, inf = math.nan, math.inf
    want, noisy = torch.tensor([1.0, 6e4, 2.0]), torch.tensor([1.0, inf, 2.0])
    for value in (nan, inf, -inf):
        row = _row(torch.tensor([1.0, 6e4, value]), want, [want], [noisy], None)
        assert row.exceeded and not Comparison([row]).ok and row.own.sqnr == -inf
    row = _row(torch.tensor([1.0, 7e4, 2.0]), want, [want], [noisy], None)
    assert row.undecided and not row.exceeded and "decides nothing" in str(row)
    assert not Comparison([row]).ok and "nothing is decided about 1 output" in Comparison([row]).verdict
    same = torch.tensor([nan, inf, 1.0])
    row = _row(same.clone(), same, [same], [same], None)
    assert Comparison([row]).ok and row.own.sqnr == inf


def test_a_compiled_program_loads_with_its_data_files():
    program = edgecore.compile(network(), (X,), external_data=True)
    with torch.no_grad():
        assert torch.allclose(edgecore.load(program).forward(X), network()(X), atol=1e-5)
    assert program.compare(network()).ok


def test_the_values_of_a_mask_hide_no_error_of_an_output():
    want = torch.tensor([1.0, 2.0, -1e9])
    assert _row(torch.tensor([1.0, 2.5, -1e9]), want, [], [], None).exceeded
    assert not _row(want.clone(), want, [], [], None).exceeded
