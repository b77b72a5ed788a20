"""Graphs of a loss and its gradients, as `_export_forward_backward` makes them, against autograd."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export.experimental import _export_forward_backward
from torch.export.graph_signature import OutputKind

import edgecore
from edgecore.devtools import compare
from edgecore.errors import CompileError
from edgecore.pipeline.bundled import eager_suite

IMAGE, SERIES = (2, 3, 8, 8), (2, 3, 9)


class WithLoss(nn.Module):
    """A network with its loss, which returns the loss alone, or the network's result too."""

    def __init__(self, net: nn.Module, more: bool) -> None:
        super().__init__()
        self.net, self.more = net, more

    def forward(self, x, y):
        result = self.net(x)
        loss = F.mse_loss(result.flatten(1).mean(1), y)
        return {"loss": loss, "result": result.detach()} if self.more else loss


@dataclass(frozen=True)
class Joint:
    """A program of a loss and its gradients, and what autograd gives for it."""

    program: torch.export.ExportedProgram
    inputs: tuple[torch.Tensor, ...]
    expected: list[torch.Tensor]

    @property
    def kinds(self) -> list[OutputKind]:
        specs = self.program.graph_signature.output_specs
        return [spec.kind for spec in specs if spec.kind != OutputKind.BUFFER_MUTATION]


def joint_of(net: nn.Module, shape: tuple[int, ...], *, more: bool = False, of_input: bool = False) -> Joint:
    torch.manual_seed(0)
    model, x, y = WithLoss(net, more), torch.randn(shape), torch.randn(shape[0])
    for parameter in model.parameters():  # from the seed, whatever ran before
        nn.init.uniform_(parameter, -0.5, 0.5)
    x.requires_grad_(of_input)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = _export_forward_backward(torch.export.export(model, (x, y), strict=True))
    result = model(x, y)
    loss = result["loss"] if more else result
    parameters = dict(model.named_parameters())
    sources = [*parameters.values(), *([x] if of_input else [])]
    gradients = dict(zip([*parameters, "x"], torch.autograd.grad(loss, sources), strict=False))
    expected = []
    for spec in program.graph_signature.output_specs:
        match spec.kind:
            case OutputKind.LOSS_OUTPUT:
                expected.append(loss.detach())
            case OutputKind.USER_OUTPUT:
                expected.append(result["result"])
            case OutputKind.GRADIENT_TO_PARAMETER:
                expected.append(gradients[spec.target])
            case OutputKind.GRADIENT_TO_USER_INPUT:
                expected.append(gradients["x"])
    return Joint(program, (x.detach(), y), expected)


def assert_equal_to_autograd(joint: Joint, buffer: bytes) -> None:
    results = edgecore.load(buffer).forward(*joint.inputs)
    assert len(results) == len(joint.expected)
    for result, expected in zip(results, joint.expected, strict=True):
        torch.testing.assert_close(torch.from_dlpack(result), expected, rtol=1e-4, atol=1e-6)


NETS = {
    "with bias": (nn.Conv2d(3, 4, 3), IMAGE),
    "without bias": (nn.Conv2d(3, 4, 3, bias=False), IMAGE),
    "strides": (nn.Conv2d(3, 4, (3, 2), stride=(1, 2), padding=(1, 0)), IMAGE),
    "groups": (nn.Conv2d(3, 6, 3, groups=3, bias=False), IMAGE),
    "dilation": (nn.Conv2d(3, 4, 3, dilation=2, bias=False), IMAGE),
    "uneven same": (nn.Conv2d(3, 4, 4, padding="same"), IMAGE),
    "conv1d": (nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU(), nn.Conv1d(4, 2, 3, bias=False)), SERIES),
    "conv3d": (nn.Conv3d(2, 3, 2), (2, 2, 4, 4, 4)),
    "two": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3, stride=2)), IMAGE),
    "transposed": (nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), IMAGE),
    "transposed after": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False)), IMAGE),
    "transposed 1d": (nn.ConvTranspose1d(3, 4, 3, stride=2), SERIES),
    "norm in eval mode": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4).eval(), nn.ReLU()), IMAGE),
    "norm in training": (nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()), IMAGE),
    "norm without weights": (
        nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4, affine=False), nn.GELU()),
        IMAGE,
    ),
    "group norm": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4, affine=False), nn.Sigmoid()), IMAGE),
    "layer norm": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.LayerNorm(6, bias=False), nn.Tanh()), IMAGE),
    "max pool": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(3, 2, 1)), IMAGE),
    "average": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)), IMAGE),
    "upsampled": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Upsample(scale_factor=2, mode="bilinear")), IMAGE),
    "reflected": (nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), IMAGE),
}


@pytest.mark.parametrize("name", NETS)
def test_the_loss_and_the_gradients_of_a_network_are_those_of_autograd(name):
    net, shape = NETS[name]
    joint = joint_of(net, shape)
    assert_equal_to_autograd(joint, edgecore.to_edge(joint.program).to_executorch().buffer)


@pytest.mark.parametrize("name", ["with bias", "without bias", "two", "norm in training"])
@pytest.mark.parametrize("backends", [[], ["xnnpack"]])
def test_gradients_follow_the_loss_and_other_results(name, backends):
    net, shape = NETS[name]
    joint = joint_of(net, shape, more=True, of_input=True)
    compiled = edgecore.compile(joint.program, backends=backends)
    assert_equal_to_autograd(joint, compiled.buffer)
    assert joint.kinds[:2] == [OutputKind.LOSS_OUTPUT, OutputKind.USER_OUTPUT]
    assert joint.kinds[-1] == OutputKind.GRADIENT_TO_USER_INPUT
    names = [output.name for output in edgecore.load(compiled.buffer).forward.outputs]
    assert names[:2] == ["loss", "result"]
    parameters = [f"net.{parameter}.grad" for parameter, _ in net.named_parameters()]
    assert names[2:-1] == parameters


@pytest.mark.parametrize(
    ("name", "backends", "more"),
    [("with bias", [], False), ("with bias", ["xnnpack"], True), ("norm in training", [], True)],
)
def test_a_comparison_takes_the_exported_program_and_names_the_gradients(name, backends, more):
    joint = joint_of(*NETS[name], more=more, of_input=more)
    before = {name: buffer.clone() for name, buffer in joint.program.named_buffers()}
    program = edgecore.compile(joint.program, backends=backends)
    comparison = program.compare(joint.program, [joint.inputs] * 2)
    assert comparison.ok
    names = [output.name for output in edgecore.load(program.buffer).forward.outputs]
    assert {row.output for row in comparison.rows} == {*names}
    assert all(torch.equal(buffer, before[name]) for name, buffer in joint.program.named_buffers())
    report = compare(joint.program, [joint.inputs], backends=backends)
    assert report.ok
    assert len(report.outputs) == len(names)


class Half(nn.Module):
    """Has the loss of another module, and half of its gradients."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x, y):
        loss = self.module(x, y)
        return (loss + loss.detach()) / 2


def test_a_comparison_names_the_gradients_that_are_wrong():
    net, shape = NETS["with bias"]
    joint = joint_of(net, shape)
    model = WithLoss(net, more=False)
    half = _export_forward_backward(torch.export.export(Half(model), joint.inputs, strict=True))
    comparison = edgecore.compile(joint.program).compare(half)
    assert {row.output: row.exceeded for row in comparison.rows} == {
        "output_0": False, "net.weight.grad": True, "net.bias.grad": True,
    }  # fmt: skip


def test_a_bundle_has_the_loss_and_the_gradients(tmp_path):
    joint = joint_of(*NETS["without bias"], of_input=True)
    suite = eager_suite("forward", joint.program)
    edgecore.BundledProgram(edgecore.compile(joint.program), [suite]).save(tmp_path / "joint.bpte")
    verdict = edgecore.verify_bundled(tmp_path / "joint.bpte")
    assert verdict.passed
    assert len(verdict.results) == len(joint.expected)


@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic"])
def test_a_recipe_of_activations_refuses_gradients(recipe):
    joint = joint_of(*NETS["average"])
    calibration = [joint.inputs] if recipe == "int8" else None
    with pytest.raises(CompileError, match="the program computes gradients, .* quantize the model alone"):
        edgecore.compile(joint.program, backends=["xnnpack"], quantize=recipe, calibration=calibration)


class Sum(nn.Module):
    """Has equal gradients for both parameters, which lowering computes once."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

    def forward(self, x):
        return (x * self.a + x * self.b).pow(2).sum()


def test_equal_gradients_are_outputs_of_their_own():
    x = torch.arange(3.0)
    program = _export_forward_backward(torch.export.export(Sum(), (x,), strict=True))
    results = edgecore.load(edgecore.to_edge(program).to_executorch().buffer).forward(x)
    _, a, b = (torch.from_dlpack(result) for result in results)
    torch.testing.assert_close(a, 4 * x**2)
    a.zero_()
    torch.testing.assert_close(b, 4 * x**2)


class Centre(nn.Module):
    """Moves a parameter at each call, as the centre of a loss or a codebook moves."""

    def __init__(self):
        super().__init__()
        self.centre = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        with torch.no_grad():
            self.centre.lerp_(x, 0.5)
        return x - self.centre


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_parameter_that_the_model_writes_is_state(decomposed):
    x, eager = torch.tensor([1.0, 2.0, 4.0]), Centre().eval()
    program = torch.export.export(Centre().eval(), (x,))
    method = edgecore.load(edgecore.compile(program.run_decompositions({}) if decomposed else program).buffer).forward
    for _ in range(3):
        torch.testing.assert_close(torch.from_dlpack(method(x)), eager(x).detach())


class Prints(nn.Module):
    def forward(self, x):
        torch.ops.aten._print("seen")
        return x + 1


def test_a_decomposed_program_with_tokens_runs():
    x = torch.ones(3)
    program = torch.export.export(Prints().eval(), (x,)).run_decompositions({})
    assert "TOKEN" in [spec.kind.name for spec in program.graph_signature.output_specs]
    torch.testing.assert_close(torch.from_dlpack(edgecore.load(edgecore.compile(program).buffer).forward(x)), x + 1)
