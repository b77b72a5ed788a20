"""`edgecore.devtools.compare` names the operator that a faulty backend computes wrongly, in a network of 60 layers."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch
from torch import nn

import edgecore
from edgecore.devtools import compare
from edgecore.devtools.comparison import bisect, taps
from edgecore.devtools.comparison.engine import Engine
from edgecore.ir.graph import Editor, calls, edit, fake_mode, module_path
from edgecore.ir.program.constants import Constants

compiler = pytest.importorskip("edgecore_xnnpack.compiler")
aten = torch.ops.aten

LAYER = "blocks.17.wide"
"""The layer that the backend computes wrongly: the 35th of 60."""


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.activation = nn.ReLU6()

    def forward(self, x):
        return x + self.narrow(self.activation(self.wide(x)))


class Network(nn.Module):
    """60 convolutions."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(30))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def samples():
    return [(torch.randn(1, 8, 8, 8, generator=torch.Generator().manual_seed(seed)),) for seed in range(2)]


def weight_of(program):
    """The placeholder of the layer's weight, of int8 if the network is quantized."""
    node = convolution_of(program).args[1]
    return node if node.op == "placeholder" else node.args[0]


def convolution_of(program):
    (node,) = (node for node in calls(program.graph_module, aten.convolution.default) if module_path(node) == LAYER)
    return node


def scale_off_by_one_step(program):
    """127 steps of the weights' scale become 128."""
    constants, convolution = Constants(program), convolution_of(program)
    weight = convolution.args[1]
    scaled = weight if weight.op == "placeholder" else weight.args[1]
    constants.set(scaled, constants.get(scaled) * (128 / 127))


def wrong_axis(program):
    constants, weight = Constants(program), weight_of(program)
    constants.set(weight, constants.get(weight).transpose(2, 3).contiguous())


def swapped_weight(program):
    constants, weight = Constants(program), weight_of(program)
    swapped = constants.get(weight).clone().flatten()
    low, high = int(swapped.argmin()), int(swapped.argmax())
    swapped[[low, high]] = swapped[[high, low]]
    constants.set(weight, swapped.reshape(8, 8, 3, 3))


def not_a_number(program):
    """The third channel of the result is multiplied by NaN, which an int8 value cannot be."""
    factors = torch.ones(1, 8, 1, 1)
    factors[0, 2] = math.nan
    (activation,) = convolution_of(program).users
    with edit(program) as module:
        factor = Constants(program).add("nan_factors", factors)
        users = list(activation.users)
        product = Editor(module, activation, fake_mode(module)).call(aten.mul.Tensor, activation, factor)
        activation.append(product)
        for user in users:
            user.replace_input_with(activation, product)


def saturating_activation(program):
    (activation,) = convolution_of(program).users
    activation.args = (activation.args[0], 0.0, 0.2)


FAULTS = [scale_off_by_one_step, wrong_axis, swapped_weight, not_a_number, saturating_activation]


@pytest.fixture
def plant(monkeypatch):
    """plant(fault): XNNPACK's compiler gets partitions in which this fault was made."""
    preprocess = compiler.preprocess

    def plant(fault):
        def faulty(program, force_fp16=False):
            if any(module_path(node) == LAYER for node in calls(program.graph_module, aten.convolution.default)):
                fault(program)
                program.graph_module.recompile()
            return preprocess(program, force_fp16)

        monkeypatch.setattr(compiler, "preprocess", faulty)

    return plant


@pytest.fixture(scope="module")
def programs():
    """The network in float and in int8, exported."""
    torch.manual_seed(0)
    options = {"backends": "xnnpack", "quantize": "int8", "calibration": samples()}
    quantized = edgecore.compile(Network().eval(), samples()[0], **options).quantized["forward"]
    return {"float": quantized.original, "int8": quantized.program}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float", "int8"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_faulty_layer_is_the_first_culprit(plant, programs, fault, kind):
    plant(fault)
    report = compare(programs[kind], samples(), backends="xnnpack")
    assert report.culprit is not None, str(report)
    assert report.culprit.module == LAYER, str(report)
    assert "convolution" in report.culprit.operator
    assert report.culprit.backend == "XnnpackBackend"
    assert not report.ok and LAYER in report.verdict


@pytest.mark.parametrize("kind", ["float", "int8"])
def test_without_a_fault_no_layer_is_wrong(programs, kind):
    report = compare(programs[kind], samples(), backends="xnnpack")
    assert report.ok and report.culprit is None, str(report)
    assert {f"blocks.{index}.wide" for index in range(30)} <= {row.module for row in report.rows}
    assert (report.conditions.left_out, report.conditions.programs, report.conditions.cut) == (0, 1, False)


@pytest.mark.parametrize("kind", ["float", "int8"])
@pytest.mark.parametrize("fault", [wrong_axis, saturating_activation])
def test_cutting_the_program_finds_the_same_culprit(plant, programs, fault, kind):
    plant(fault)
    report = compare(programs[kind], samples(), backends="xnnpack", cut=True)
    assert report.conditions.cut and "cut" in report.conditions.way
    assert report.culprit is not None and report.culprit.module == LAYER, str(report)


def test_cutting_a_program_without_a_fault_names_no_layer(programs):
    report = compare(programs["int8"], samples(), backends="xnnpack", cut=True)
    assert report.ok and not report.rows


def test_not_a_number_is_counted(plant, programs):
    plant(not_a_number)
    row = compare(programs["float"], samples(), backends="xnnpack").culprit
    assert row.local.nans == 64
    assert "64 NaN" in row.judgement.why and "64 NaN" in str(row.local)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float", "int8"])
def test_an_extracted_operator_shows_the_fault_of_its_own(plant, programs, tmp_path, kind):
    plant(wrong_axis)
    folder = tmp_path / "bug"
    compare(programs[kind], samples(), backends="xnnpack").culprit.extract(folder)
    assert "On its own the operator computes what it computed in the model" in (folder / "README.txt").read_text()
    ran = subprocess.run([sys.executable, folder / "run.py"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    eager, device, in_model = ran.stdout.splitlines()
    assert eager == "PyTorch: 0 of 512 elements differ, at most by 0"
    assert device.startswith("device: ") and " 0 of 512" not in device
    assert device.removeprefix("device") == in_model.removeprefix("device, in the model")


def test_the_outputs_are_compared_where_taps_fail(plant, programs, monkeypatch):
    """From the faulty layer on no tap works: then its error is in the row of the output."""
    plant(wrong_axis)
    monkeypatch.setattr(taps, "FAILURES", 3)
    try_taps = taps.TapPrograms._try

    def fail(self, group):
        return try_taps(self, group[:4]) if self.failures else None

    monkeypatch.setattr(taps.TapPrograms, "_try", fail)
    report = compare(programs["float"], samples(), backends="xnnpack")
    assert report.conditions.left_out and not report.conditions.cut
    assert not report.ok and report.culprit.site == report.rows[-1].site, str(report)


def test_the_search_goes_on_behind_an_operator_that_is_right(plant, programs, monkeypatch):
    """Errors that have added up make a place wrong though its operator is right; the fault is behind it."""
    plant(wrong_axis)
    values = Engine.values

    def wrong_at_first(engine, number, device=None, **options):
        exact = values(engine, number, device, **options)
        return (
            exact if device else {site.tap: exact[site.tap] + 1000 * (at >= 3) for at, site in enumerate(engine.sites)}
        )

    monkeypatch.setattr(Engine, "values", wrong_at_first)
    report = compare(programs["float"], samples()[:1], backends="xnnpack", cut=True)
    assert [row.wrong for row in report.rows] == [False, True], str(report)
    assert report.culprit.module == LAYER


def test_the_search_leaves_out_places_that_cannot_be_compiled(plant, programs, monkeypatch):
    plant(wrong_axis)
    tapped_program = bisect.tapped_program
    refused = []

    def refuse(compile_with, tap, place):
        if len(refused) < 2:
            refused.append(tap.names[0])
        return None if tap.names[0] in refused else tapped_program(compile_with, tap, place)

    monkeypatch.setattr(bisect, "tapped_program", refuse)
    report = compare(programs["float"], samples()[:1], backends="xnnpack", cut=True)
    assert report.culprit is not None and report.culprit.module == LAYER, str(report)
