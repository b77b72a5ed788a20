"""`edgecore.devtools.compare`: rows for operators, ways to see values, samples, figures, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
import torch
from torch import nn

from edgecore.devtools import compare
from edgecore.devtools.comparison.engine import CompileArguments, Engine
from edgecore.devtools.comparison.extract import FILES
from edgecore.devtools.comparison.judgement import judge
from edgecore.devtools.comparison.sites import Site
from edgecore.devtools.comparison.taps import chunks, same_bits
from edgecore.errors import CompileError
from edgecore.numerics.metrics import measure
from edgecore.passes.pipeline import EDGE_PASSES

pytest.importorskip("edgecore_xnnpack")


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.sigmoid(self.second(x))
        return self.head(x.mean((2, 3)))


def samples(count=2):
    return [(torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(seed)),) for seed in range(count)]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Small().eval()


def test_rows_name_operators_modules_lines_and_backends(model):
    report = compare(model, samples(), backends="xnnpack")
    assert report.ok, str(report)
    first = report.rows[0]
    assert (first.module, first.operator, first.backend) == ("first", "convolution + relu", "XnnpackBackend")
    assert first.source.endswith(f"test_engine.py:{Small.forward.__code__.co_firstlineno + 1}")
    assert [row.module for row in report.rows if row.module] == ["first", "second", "head"]
    assert all(row.local.sqnr > 100 and row.accumulated.sqnr > 100 for row in report.rows)
    assert report.conditions.way == "taps in 1 program changed nothing: the outputs are bit-equal with and without them"


def test_kernels_of_edgecore_are_compared_too(model):
    report = compare(model, samples())
    assert report.ok, str(report)
    assert {row.backend for row in report.rows} == {"edgecore"}
    words = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 4)).eval()
    report = compare(words, [(torch.tensor([1, 2]),)], backends="xnnpack")
    assert [(row.operator, row.backend) for row in report.rows] == [
        ("embedding", "edgecore"), ("linear", "XnnpackBackend")
    ]  # fmt: skip


def test_a_quantized_model_is_compared_three_ways(model):
    report = compare(model, backends="xnnpack", quantize="int8", calibration=samples(4))
    assert report.ok, str(report)
    assert (report.conditions.samples, report.conditions.origin) == (4, "calibration")
    row = next(row for row in report.rows if row.module == "first")
    assert row.site.step is not None and row.local.steps in (0, 1)
    assert 20 < row.of_quantized < 60 and row.of_device == pytest.approx(row.of_quantized, abs=1)
    assert row.accumulated.sqnr > row.of_device
    assert report.outputs[0].of_reference.sqnr < report.outputs[0].own.sqnr
    assert str(report).splitlines()[3].split()[-3:] == ["accumulated", "quantized", "device"]


def test_scales_that_are_chosen_at_run_time_are_no_fault(model):
    report = compare(model, samples(), backends="xnnpack", quantize="int8-dynamic")
    assert report.ok, str(report)


def test_fp16_is_no_fault(model):
    report = compare(model, samples(), backends="xnnpack", quantize="fp16")
    assert report.ok, str(report)
    assert report.rows[0].local.sqnr < 100


def test_indices_are_not_compared_with_the_values_that_they_belong_to():
    class Best(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(x).topk(3).indices

    inputs = [(torch.randn(2, 8),) for _ in range(2)]
    report = compare(Best().eval(), backends="xnnpack", quantize="int8", calibration=inputs)
    (row,) = (row for row in report.rows if row.operator == "topk")
    assert row.of_quantized is None and row.of_device is None
    (layer,) = (row for row in report.rows if row.operator == "linear")
    assert layer.of_quantized > 20


def test_values_are_split_over_several_programs_by_their_bytes(model):
    whole = compare(model, samples(), backends="xnnpack")
    split = compare(model, samples(), backends="xnnpack", max_bytes=1)
    assert split.conditions.programs + 1 == len(split.rows) == len(whole.rows)  # the output needs no tap
    assert [row.accumulated for row in split.rows] == [row.accumulated for row in whole.rows]


def test_sites_are_grouped_in_order_and_a_large_one_is_alone():
    def site(name, size):
        return Site(name, name, name, None, "", size)

    groups = chunks([site("a", 2), site("b", 2), site("c", 9), site("d", 1), site("e", 3)], 4)
    assert [[one.tap for one in group] for group in groups] == [["a", "b"], ["c"], ["d", "e"]]


def engine_of(model, **options):
    defaults = {"quantize": None, "calibration": None, "dynamic_shapes": None}
    arguments = CompileArguments("xnnpack", runtime="executorch-1.5", passes=EDGE_PASSES, **{**defaults, **options})
    return Engine(model, [(args, {}) for args in samples()], arguments, tolerance=None)


def test_a_tap_that_changes_the_outputs_is_left_out(model):
    engine = engine_of(model, quantize="int8", calibration=samples())
    (inside,) = (node for node in engine.edge.graph.nodes if node.name == "convolution_default")
    assert inside.name not in {site.source for site in engine.sites}  # its relu is
    wrong = Site(inside.name, inside.name, inside.name, None, "XnnpackBackend", 4)
    engine.taps.add([*engine.sites, wrong])
    assert engine.taps.changed == [wrong]
    assert {site.tap for site in engine.taps.seen} == {site.tap for site in engine.sites}
    assert engine.taps.failures > 1


def test_state_starts_anew_for_each_sample():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(4))
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            self.total.add_(x.mean(0))
            return self.layer(x) + self.total

    torch.manual_seed(0)
    inputs = [(torch.randn(2, 4),) for _ in range(3)]
    report = compare(Counter().eval(), inputs, backends="xnnpack")
    assert report.ok, str(report)
    assert report.outputs[0].own.sqnr > 100


def test_sizes_may_differ_from_sample_to_sample(model):
    inputs = [(torch.randn(1, 3, size, size),) for size in (8, 12)]
    sizes = {2: torch.export.Dim("height", min=6, max=16), 3: torch.export.Dim("width", min=6, max=16)}
    report = compare(model, inputs, backends="xnnpack", dynamic_shapes=(sizes,))
    assert report.ok and report.rows, str(report)


def test_the_figures_are_those_of_the_worst_sample(model):
    one = compare(model, samples(1), backends="xnnpack")
    both = compare(model, samples(2), backends="xnnpack")
    assert all(
        worst.accumulated.sqnr <= single.accumulated.sqnr for worst, single in zip(both.rows, one.rows, strict=True)
    )
    assert {row.accumulated.sample for row in both.rows} <= {0, 1}


def test_a_stricter_tolerance_makes_rounding_a_fault(model):
    report = compare(model, samples(), backends="xnnpack", tolerance=1e-9)
    assert report.culprit.site == report.rows[0].site
    assert "rounding explains 1e-09" in report.verdict


def test_a_pass_that_changes_the_model_is_no_fault_of_a_backend(model):
    def double(program):
        for node in program.graph.nodes:
            if node.target is torch.ops.aten.relu.default:
                node.target = torch.ops.aten.neg.default
        program.graph_module.recompile()
        return program

    report = compare(model, samples(), backends="xnnpack", passes=EDGE_PASSES.insert_after("fuse_batch_norm", double))
    assert report.culprit is None and not report.ok
    assert "lowering has changed the model, before any backend" in report.verdict


def test_all_figures_are_json(model):
    figures = json.loads(json.dumps(compare(model, samples(), backends="xnnpack").as_dict(), allow_nan=False))
    assert figures["ok"] and figures["culprit"] is None
    assert figures["rows"][0]["module"] == "first" and figures["rows"][0]["local"]["steps"] is None


def test_a_table_shows_the_rows_with_the_largest_errors(model):
    report = compare(model, samples(), backends="xnnpack")
    text = report.table(top=1)
    assert f"... {len(report.rows) - 1} more operators, with smaller errors" in text
    assert max(map(len, report.table(width=120).splitlines())) <= 120


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        (None, {}, "there are no inputs to compare"),
        ([], {}, "pass at least one sample"),
        (samples(), {"samples": 0}, "samples and max_bytes must be at least 1"),
    ],
)
def test_bad_arguments_are_refused(model, inputs, options, message):
    with pytest.raises(CompileError, match=message):
        compare(model, inputs, **options)


def test_several_methods_are_refused(model):
    with pytest.raises(CompileError, match="call it for each method"):
        compare({"a": model}, samples())


def test_the_bits_of_nan_are_compared_too():
    nan, one = torch.tensor([float("nan"), 1.0]), torch.tensor([1.0, 1.0])
    assert same_bits([nan], [nan.clone()]) and not same_bits([nan], [one])


def test_a_tie_is_no_fault_but_a_shift_of_all_is():
    unrounded = torch.linspace(-50, 50, 10001)
    want = unrounded.round()

    def judged(got):
        gap = measure(want, got, 1.0)
        return judge(
            gap, want, got, step=1.0, unrounded=unrounded, tolerance=None, computes_in=torch.float32
        )  # fmt: skip

    ties = (unrounded - unrounded.floor() - 0.5).abs() < 0.02
    other = torch.where(ties, unrounded.floor() + (want == unrounded.floor()), want)
    assert 0 < (other != want).float().mean() < 0.05
    assert judged(other).ratio <= 1
    assert judged((unrounded * 128 / 127).round()).ratio > 1
    single = want.clone()
    single[5000] += 3
    assert "an element is 3 steps off" in judged(single).why


class Keywords(nn.Module):
    def forward(self, x, *, scale):
        return {"scaled": x * scale, "largest": x.argmax(-1), "rows": x.shape[0], "none": None}


class Nested(nn.Module):
    def forward(self, inputs):
        return inputs["x"] - 2 * inputs["more"][0]


def test_keyword_inputs_may_have_any_order_and_all_kinds_of_outputs_are_compared():
    first = {"x": torch.randn(3, 4), "scale": torch.full((4,), 2.0)}
    second = {"scale": torch.full((4,), 3.0), "x": torch.randn(3, 4)}
    report = compare(Keywords().eval(), [first, second])
    assert report.ok and report.conditions.samples == 2, str(report)
    assert [output.own.differing for output in report.outputs] == [0, 0, 0, 0]


def test_nested_inputs_are_compared_with_the_model():
    report = compare(Nested().eval(), ({"x": torch.randn(3), "more": [torch.randn(3)]},))
    assert report.ok and report.outputs[0].of_device.sqnr > 100, str(report)


def test_inputs_that_do_not_fit_are_one_sentence():
    net, sample = nn.Linear(4, 4).eval(), (torch.randn(3, 4),)
    with pytest.raises(CompileError, match="sample 1 has inputs of another number"):
        compare(net, [sample, (*sample, torch.randn(3))])
    with pytest.raises(CompileError, match="pass at least one sample"):
        compare(net, [])
    with pytest.raises(CompileError, match="pass at least one sample"):
        compare(net, quantize="int8", calibration=[], backends="xnnpack")


def test_a_model_that_writes_its_input_is_refused():
    class Writes(torch.nn.Module):
        def forward(self, x):
            return x.add_(1) * 2

    with pytest.raises(CompileError, match="writes its input x"):
        compare(Writes().eval(), (torch.ones(2),), backends=[])


def test_any_row_can_be_extracted_and_rows_are_data(model, tmp_path):
    report = compare(model, samples(1), backends="xnnpack")
    row = report.rows[1]
    assert [path.name for path in report.extract(row, tmp_path / "bug")] == list(FILES)
    assert all(type(getattr(row, field.name)).__name__ != "Engine" for field in fields(row))
    assert torch.load(tmp_path / "bug" / "values.pt")["got"].shape == row.shape
