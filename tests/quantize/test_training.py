"""Quantization-aware training: prepare, train, compile; and the example that trains on digits."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch import nn

import edgecore
from edgecore import Recipe
from edgecore.errors import CompileError

pytest.importorskip("edgecore_xnnpack")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "qat.py"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.drop = nn.Conv2d(3, 8, 3), nn.Dropout(0.1)
        self.head = nn.Linear(8 * 16, 5)

    def forward(self, x):
        return self.head(self.drop(torch.relu(self.conv(x)).flatten(1)))


X = torch.randn(16, 3, 6, 6, generator=torch.Generator().manual_seed(0))


def net():
    torch.manual_seed(0)
    return Net().eval()


def test_training_lowers_the_loss_and_the_file_computes_what_was_trained():
    model = net()
    prepared = edgecore.prepare_qat(model, (X,), backends="xnnpack")
    assert not model.training and not model.drop.training and prepared.training
    optimizer, losses = torch.optim.SGD(prepared.parameters(), 0.05), []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (prepared(X) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    program = edgecore.compile(prepared, (X,), backends="xnnpack")
    assert program.report().delegates == {"XnnpackBackend": 1} and program.report().left_outside == []
    assert program.compare(edgecore.quantize.convert_trained(prepared)).ok
    assert (edgecore.load(program.buffer).forward(X) - 1).square().mean() < 0.3 * losses[0]
    prepared(X).sum().backward()  # the training can go on


def test_rules_leave_layers_out_of_the_training_in_integers():
    library = torch.ops.quantized_decomposed
    counts = []
    for skip in ([], ["head"], ["*"]):
        prepared = edgecore.prepare_qat(net(), (X,), backends="xnnpack", quantize=Recipe("int8", skip=skip))
        prepared(X)
        program = torch.export.export(edgecore.quantize.convert_trained(prepared), (X,))
        counts.append(sum(node.target is library.dequantize_per_channel.default for node in program.graph.nodes))
    assert counts == [2, 1, 0]


def test_what_cannot_be_trained_is_explained():
    for recipe in ("int4-weights", "int8-dynamic", Recipe("int8", embeddings=8)):
        with pytest.raises(CompileError, match="of backend 'xnnpack' has no quantization-aware training; use a recipe"):
            edgecore.prepare_qat(net(), (X,), backends="xnnpack", quantize=recipe)
    prepared = edgecore.prepare_qat(net(), (X,), backends="xnnpack")
    with pytest.raises(CompileError, match="prepared by edgecore.prepare_qat, which chose its recipe; remove quantize"):
        edgecore.compile(prepared, (X,), backends="xnnpack", quantize="int8", calibration=[X])


class Small(nn.Module):
    """Functions whose results are small, with a parameter for the optimizer."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(6))

    def forward(self, x):
        small = (x + self.bias) * 0.1
        return small.tanh() * small


def test_training_with_int16_values_rounds_small_values_as_the_file_does():
    inputs = torch.rand(32, 6, generator=torch.Generator().manual_seed(0)) * 0.5
    prepared = edgecore.prepare_qat(Small().eval(), (inputs,), backends=[], quantize={"kernels": "int16x8"})
    trained = prepared(inputs).detach()
    file = edgecore.load(edgecore.compile(prepared, (inputs,), runtime="edgecore").buffer)
    difference = torch.as_tensor(file.forward(inputs)) - trained
    assert difference.abs().max() < 2e-3 * trained.abs().max()


def test_the_example_trains_and_keeps_the_accuracy(tmp_path):
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("qat_example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    accuracy = example.main(tmp_path)
    assert accuracy["float"] > 0.95 and accuracy["int8 trained"] >= 0.99 * accuracy["float"]
    sizes = {path.stem: path.stat().st_size for path in tmp_path.glob("*.pte")}
    assert sizes["int8-trained"] < sizes["float"]
