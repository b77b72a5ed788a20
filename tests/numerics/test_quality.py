"""`program.report(quantization=True)`: what each layer of a quantized program loses."""

import math

import pytest
import torch
from torch import nn

import edgecore
from edgecore.errors import CompileError
from edgecore.pipeline import compiled_program

pytest.importorskip("edgecore_xnnpack")

IMAGES = [torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 3), nn.Hardsigmoid(), nn.Flatten(),
        nn.Linear(512, 32), nn.Linear(32, 7),
    ).eval()  # fmt: skip


def decibels(got, want):
    return float(10 * torch.log10(want.square().sum() / (got - want).square().sum()))


@pytest.mark.parametrize(
    "recipe, scheme",
    [
        ("int8", "inputs int8, weights int8 per channel, result int8"),
        ("int8-dynamic", "inputs int8 at run time, weights int8 per channel"),
        ("int4-weights", "inputs int8 per row at run time, weights int4 in groups of 32"),
        ("fp16", "float16"),
    ],
)
def test_the_loss_of_the_last_layer_is_that_of_the_file(recipe, scheme):
    calibration = IMAGES if recipe == "int8" else None
    program = edgecore.compile(network(), (IMAGES[0],), backends=["xnnpack"], quantize=recipe, calibration=calibration)
    report = program.report(quantization=True)
    rows = {row.module: row for row in report.quantization}
    assert "5" not in rows  # moves only
    last = rows["7"]
    assert (last.operator, last.node, last.method, last.scheme) == (
        "aten.linear.default",
        "linear_1",
        "forward",
        scheme,
    )
    with torch.no_grad():
        loss = decibels(edgecore.load(program.buffer).forward(IMAGES[0]), network()(IMAGES[0]))
    # Kernels of processors with AVX512-FP16 also round each of the 512 partial sums of a result. In the mean, the square of
    # a partial sum is half that of the result, so the noise grows by at most 512 / 2 of that of one rounding.
    accumulation = 10 * math.log10(1 + 512 / 2) if recipe == "fp16" else 0
    assert -1.5 < last.sqnr - loss < 1.5 + accumulation
    ratios = [row.sqnr for row in report.quantization]
    assert ratios == sorted(ratios) and all(ratio > 15 for ratio in ratios)
    assert str(report.quantization[0]) in str(report) and f" x aten.linear.default: {scheme}\n" in str(report)


def test_a_printed_report_says_how_many_layers_it_leaves_out():
    torch.manual_seed(0)
    layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(12)))
    sample = torch.randn(4, 8)
    program = edgecore.compile(layers.eval(), (sample,), backends=["xnnpack"], quantize="int8", calibration=[sample])
    report = program.report(quantization=True)
    assert len(report.quantization) == 12
    assert report.quantization_lines()[-1] == "  (2 more in the HTML report)"
    assert report.quantization_lines(12)[-1] == f"  {report.quantization[-1]}"


def test_a_layer_that_loses_much_stands_first():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.good, self.bad = nn.Linear(64, 64), nn.Linear(64, 64)
            with torch.no_grad():
                self.bad.weight[:, ::32] = 1e3  # what 4 bits leave of the other 31 weights of a group is 0
                self.bad.bias.fill_(0)

        def forward(self, x):
            return self.good(x), self.bad(x.masked_fill(torch.arange(64) % 32 == 0, 0))

    torch.manual_seed(0)
    program = edgecore.compile(Net().eval(), (torch.randn(4, 64),), backends=["xnnpack"], quantize="int4-weights")
    first, second = (row for row in program.report(quantization=True).quantization if "linear" in row.operator)
    assert first.module == "bad" and first.sqnr < 5 and second.sqnr > 15 and first.inputs_sqnr == math.inf


def test_the_loss_is_measured_on_request_only_and_then_once(monkeypatch):
    calls = []
    measure = compiled_program.layer_qualities
    monkeypatch.setattr(compiled_program, "layer_qualities", lambda *args: calls.append(args) or measure(*args))
    program = edgecore.compile(network(), (IMAGES[0],), backends=["xnnpack"], quantize="int8", calibration=IMAGES)
    assert program.report().quantization is None and "quantization" not in str(program.report()) and not calls
    assert program.report(quantization=True) is program.report(quantization=True)
    assert len(calls) == 1 and program.report().quantization
    plain = edgecore.compile(network(), (IMAGES[0],), backends=["xnnpack"])
    assert plain.report(quantization=True).quantization == []


def test_each_method_is_measured_with_its_own_calibration(tmp_path):
    class Scale(nn.Module):
        def forward(self, x, by):
            return x * by, torch.zeros(2) * x.sum()

    inputs = {"a": (torch.ones(3), torch.ones(3)), "b": (torch.ones(3), torch.ones(3))}
    ranges = {"a": lambda model: model(torch.rand(3), by=torch.rand(3)), "b": [(torch.ones(3), torch.ones(3))]}
    program = edgecore.compile(
        {name: torch.export.export(Scale().eval(), (x,), {"by": by}) for name, (x, by) in inputs.items()},
        backends=["xnnpack"], quantize="int8", calibration=ranges,
    )  # fmt: skip
    report = program.report(quantization=True)
    products = [(row.method, row.operator) for row in report.quantization if row.operator == "aten.mul.Tensor"]
    assert sorted(products) == [("a", "aten.mul.Tensor"), ("b", "aten.mul.Tensor")]  # a result of zeros has no ratio
    assert "  a: " in str(report)
    report.to_html(tmp_path / "page.html")
    assert "aten.mul.Tensor" in (tmp_path / "page.html").read_text()


def test_an_option_of_the_user_overrides_the_precision_of_a_recipe():
    backend = edgecore.Backend("xnnpack", force_fp16=False)
    program = edgecore.compile(network(), (IMAGES[0],), backends=[backend], quantize="fp16")
    rows = program.report(quantization=True).quantization
    assert {row.sqnr for row in rows} == {math.inf} and {row.scheme for row in rows} == {"float32"}


def test_a_program_without_example_inputs_cannot_be_measured():
    exported = torch.export.export(network(), (IMAGES[0],))
    exported._example_inputs = None
    program = edgecore.compile(exported, backends=["xnnpack"], quantize="int4-weights")
    with pytest.raises(CompileError, match="needs a sample, but the exported program has no example inputs"):
        program.report(quantization=True)


def test_infinities_of_a_mask_do_not_count():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(32, 32)

        def forward(self, x):
            return self.layer(x).masked_fill(torch.arange(32) > 9, -math.inf).softmax(-1)

    torch.manual_seed(0)
    program = edgecore.compile(Masked().eval(), (torch.randn(4, 32),), backends=["xnnpack"], quantize="int4-weights")
    rows = program.report(quantization=True).quantization
    assert len(rows) >= 3 and all(
        15 < row.sqnr < 60 for row in rows if "arange" not in row.node and "gt" not in row.node
    )


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN, nn.LSTMCell, nn.GRUCell, nn.RNNCell])
@pytest.mark.parametrize("first", [nn.Identity(), nn.Sequential(nn.Linear(4, 4), nn.ReLU())], ids=["input", "layer"])
def test_a_recurrent_layer_is_listed_as_one_in_floating_point_also_behind_integers(kind, first):
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.recurrent, self.head = first, kind(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.head(self.recurrent(self.first(x))[0])

    x = (torch.randn(2, 4) if "Cell" in kind.__name__ else torch.randn(5, 2, 4),)
    program = edgecore.compile(Network().eval(), x, backends=["xnnpack"], quantize="int8", calibration=[x])
    rows = {row.module: row for row in program.report(quantization=True).quantization}
    assert rows["recurrent"].scheme.startswith("float32 (no recipe quantizes recurrent layers)")
    assert rows["head"].scheme.startswith("inputs int8")
