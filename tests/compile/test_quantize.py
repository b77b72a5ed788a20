"""`edgecore.compile(quantize=...)`: recipes, calibration in all its forms, and what is said when it cannot be used."""

import numpy as np
import pytest
import torch
from torch import nn

import edgecore
from edgecore.errors import CompileError

pytest.importorskip("edgecore_xnnpack")

SAMPLES = [torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.Flatten(), nn.Linear(4096, 5)).eval()


def quantized(calibration, **options):
    return edgecore.compile(
        network(), (SAMPLES[0],), backends=["xnnpack"], quantize="int8", calibration=calibration, **options
    )


def signal_to_noise(got, want):
    return float(10 * torch.log10(want.square().mean() / (got - want).square().mean()))


@pytest.fixture(scope="module")
def program():
    return quantized(SAMPLES)


def test_int8_is_close_and_a_quarter_of_the_size(program):
    whole = edgecore.compile(network(), (SAMPLES[0],), backends=["xnnpack"])
    assert program.report().delegates == {"XnnpackBackend": 1} and program.report().left_outside == []
    with torch.no_grad():
        want = network()(SAMPLES[1])
    assert signal_to_noise(edgecore.load(program.buffer).forward(SAMPLES[1]), want) > 30
    weights = 4 * sum(parameter.numel() for parameter in network().parameters())
    assert len(whole.buffer) - len(program.buffer) > 0.7 * weights


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


def test_several_inputs_come_from_one_archive(tmp_path):
    class Sum(nn.Module):
        def forward(self, x, y):
            return x + y

    np.savez(tmp_path / "0.npz", x=np.ones((2, 3), np.float32), y=np.full((2, 3), -2, np.float32))
    inputs = (torch.ones(2, 3), torch.ones(2, 3))
    program = edgecore.compile(Sum().eval(), inputs, backends=["xnnpack"], quantize="int8", calibration=tmp_path)
    got = edgecore.load(program.buffer).forward(torch.ones(2, 3), torch.full((2, 3), -2.0))
    assert torch.allclose(got, -torch.ones(2, 3), atol=0.05)


def test_dynamic_shapes_stay_dynamic():
    dim = torch.export.Dim("n", min=2, max=8)
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU()).eval()
    samples = [torch.randn(n, 6, generator=torch.Generator().manual_seed(n)) for n in (2, 5, 8)]
    program = edgecore.compile(
        model, (samples[1],), dynamic_shapes=({0: dim},), backends=["xnnpack"], quantize="int8", calibration=samples
    )
    loaded = edgecore.load(program.buffer)
    for sample in samples:
        with torch.no_grad():
            assert signal_to_noise(loaded.forward(sample), model(sample)) > 25


@pytest.mark.parametrize(
    "calibration, message",
    [
        (None, "needs calibration"),
        ([], "has no samples"),
        (
            [torch.rand(1, 3, 12, 12), torch.rand(1, 4, 12, 12)],
            r"sample 2 \(\(1, 4, 12, 12\) torch.float32\) does not fit",
        ),
        ("/nowhere", "/nowhere is no folder"),
    ],
)
def test_calibration_that_cannot_be_used(calibration, message):
    with pytest.raises(CompileError, match=message):
        quantized(calibration)


def test_damaged_samples_are_named(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"nothing")
    with pytest.raises(CompileError, match="a.npy cannot be read as numpy arrays"):
        quantized(tmp_path)


def test_recipes_that_do_not_exist():
    x = (SAMPLES[0],)
    with pytest.raises(CompileError, match="backend 'xnnpack' has no recipe 'int3': it has int8"):
        edgecore.compile(network(), x, backends=["xnnpack"], quantize="int3", calibration=SAMPLES)
    with pytest.raises(CompileError, match="needs a backend with quantizers; the backends asked for: none"):
        edgecore.compile(network(), x, quantize="int8", calibration=SAMPLES)
    with pytest.raises(CompileError, match="calibration without quantize"):
        edgecore.compile(network(), x, backends=["xnnpack"], calibration=SAMPLES)
