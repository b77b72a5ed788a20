"""Calibration samples: the forms in which they are given, and what is said of those that cannot be used."""

import re

import numpy as np
import pytest
import torch
from quantized_network import SAMPLES, quantized
from torch import nn

import edgecore
from edgecore.errors import CompileError

pytest.importorskip("edgecore_xnnpack")


def folder_of(tmp_path):
    for index, sample in enumerate(SAMPLES):
        np.save(tmp_path / f"{index}.npy", sample.numpy())
    return tmp_path


def test_all_forms_of_calibration_give_the_same_file(program, tmp_path):
    def call(model):
        for sample in SAMPLES:
            model(sample)

    loader = torch.utils.data.DataLoader([sample[0] for sample in SAMPLES])
    for form in (call, [(sample,) for sample in SAMPLES], loader, folder_of(tmp_path), str(tmp_path)):
        assert quantized(form).buffer == program.buffer


def test_several_inputs_of_a_sample_come_from_one_archive(tmp_path):
    class Sum(nn.Module):
        def forward(self, x, y):
            return x + y

    np.savez(tmp_path / "0.npz", x=np.ones((2, 3), np.float32), y=np.full((2, 3), -2, np.float32))
    inputs = (torch.ones(2, 3), torch.ones(2, 3))
    program = edgecore.compile(Sum().eval(), inputs, backends=["xnnpack"], quantize="int8", calibration=tmp_path)
    got = edgecore.load(program.buffer).forward(torch.ones(2, 3), torch.full((2, 3), -2.0))
    assert torch.allclose(got, -torch.ones(2, 3), atol=0.05)


@pytest.mark.parametrize(
    "calibration, message",
    [
        (None, "needs calibration"),
        ([], "has no samples"),
        (
            [torch.rand(1, 3, 12, 12), torch.rand(1, 4, 12, 12)],
            r"sample 2 \(\(1, 4, 12, 12\) torch.float32\) does not match",
        ),
        ("/nowhere", "/nowhere is not a folder"),
    ],
)
def test_calibration_that_cannot_be_used_is_explained(calibration, message):
    with pytest.raises(CompileError, match=message):
        quantized(calibration)


def test_damaged_samples_are_named(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"nothing")
    with pytest.raises(CompileError, match="a.npy cannot be read as NumPy arrays"):
        quantized(tmp_path)


TOKENS, MASK = torch.arange(6.0).reshape(2, 3), torch.tensor([[1.0, 0.0, 2.0], [1.0, 1.0, 0.0]])


def test_samples_may_be_given_by_keyword():
    pytest.importorskip("edgecore_xnnpack")
    pytest.importorskip("torchao")

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, *, tokens, mask):
            return self.linear(tokens) * mask

    samples = [{"mask": MASK, "tokens": TOKENS}]
    program = edgecore.compile(Layer().eval(), samples[0], backends="xnnpack", quantize="int8", calibration=samples)
    assert edgecore.load(program.buffer).forward(TOKENS, MASK).shape == (2, 3)
    assert program.report(quantization=True).quantization[0].sqnr > 20
    with pytest.raises(
        CompileError, match=re.escape("sample 1 (tokens=(2, 3) torch.float32) does not match the model")
    ):
        edgecore.compile(
            Layer().eval(), samples[0], backends="xnnpack", quantize="int8", calibration=[{"tokens": TOKENS}]
        )


def test_a_sample_of_a_folder_that_does_not_match_is_named_by_its_path(tmp_path):
    pytest.importorskip("torchao")
    np.save(tmp_path / "a.npy", np.ones((2, 3), np.float32))
    np.save(tmp_path / "b.npy", np.ones((2, 4), np.float32))
    layer = nn.Sequential(nn.Linear(3, 3)).eval()
    with pytest.raises(CompileError, match=re.escape(f"calibration sample {tmp_path / 'b.npy'} ((2, 4)")):
        edgecore.compile(layer, (torch.ones(2, 3),), backends="xnnpack", quantize="int8", calibration=tmp_path)


def test_a_sample_that_makes_nan_is_named():
    pytest.importorskip("edgecore_xnnpack")
    pytest.importorskip("torchao")

    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(torch.sqrt(x)).reshape(3, 2)

    good, bad = torch.ones(2, 3), -torch.ones(2, 3)
    with pytest.raises(CompileError, match="with calibration sample 2 .* the model computes infinite or NaN values"):
        edgecore.compile(Root().eval(), (good,), backends="xnnpack", quantize="int8", calibration=[good, bad])


D = {0: torch.export.Dim("rows", min=2, max=8)}


@pytest.mark.parametrize("shapes", [{"x": D, "more": (D, D)}, (D, (D, D))])
def test_a_model_of_variable_arguments_is_quantized_with_dynamic_shapes(shapes):
    pytest.importorskip("edgecore_xnnpack")
    pytest.importorskip("torchao")

    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x, *more):
            return self.linear(x) + more[0] * more[1]

    inputs = torch.rand(3, 3), torch.rand(3, 3), torch.rand(3, 3)
    program = edgecore.compile(
        Sum().eval(), inputs, backends="xnnpack", quantize="int8", calibration=[inputs], dynamic_shapes=shapes
    )
    assert edgecore.load(program.buffer).forward(*[torch.rand(5, 3)] * 3).shape == (5, 3)


@pytest.mark.parametrize("known", [True, False])
def test_progress_counts_the_samples_and_a_generator_needs_no_length(known, program):
    steps = []
    samples = SAMPLES if known else (sample for sample in SAMPLES)
    with edgecore.progress.reported_to(lambda task: steps.append((task.title, task.done, task.total))):
        assert quantized(samples).buffer == program.buffer
    calibrating = [(done, total) for title, done, total in steps if title == "calibrating"]
    total = len(SAMPLES) if known else None
    assert calibrating == [*((done, total) for done in range(len(SAMPLES) + 1)), (len(SAMPLES), total)]
