"""Quantization keeps every write through a view and every state, and never changes the model of the user."""

import copy
import warnings
from functools import cache

import pytest
import torch
import zoo
from torch import nn
from torch.utils._pytree import tree_map
from torchao.quantization.pt2e.observer import MinMaxObserver
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer
from written_networks import SAMPLES, Forms, Stateful

import edgecore
from edgecore.backend import Backend
from edgecore.errors import QuantizationWarning
from edgecore.format import EDGECORE, EXECUTORCH_1_5
from edgecore.ir.graph import calls
from edgecore.pipeline.chosen_backends import compilers_of
from edgecore.plugin import QuantizingCompiler
from edgecore.quantize import make_plan, quantize_model, recipes_of
from edgecore.quantize.kernels import NAME, RECIPES

CALLS = 8
SHOWN = len(SAMPLES)
COUNTERS = {"counter_after", "counter_before", "integer_counter", "flag"}
"""What is right in more calls in a row than the samples show."""

BOUNDS = {"int4-weights": 0.2, "palette4": 0.3}
"""Largest error relative to the largest magnitude, where it is not that of 8 bits."""


def recipes():
    installed = [backend.name for backend in edgecore.backends() if backend.state == "ok"]
    compilers = compilers_of([Backend(name) for name in installed])
    names = {name: one.recipes() for name, one in compilers.items() if isinstance(one, QuantizingCompiler)}
    pairs = [(backend, recipe) for backend, of_backend in {**names, NAME: RECIPES}.items() for recipe in of_backend]
    return [pytest.param(*pair, marks=[] if _is_quick(*pair) else pytest.mark.full) for pair in pairs]


def _is_quick(backend, recipe):
    """Return True for recipes with a quantizer; the one of `vgf` is that of `ethosu`."""
    return backend != "vgf" and recipe.startswith("int") and not recipe.endswith("weights")


@cache
def case(network):
    """Return a network, its exported program, its results of some calls in a row, and its state before."""
    model = network().eval().requires_grad_(False)
    with torch.no_grad():
        exported = torch.export.export(model, SAMPLES[0])
    return model, exported, results(copy.deepcopy(model)), {name: value.clone() for name, value in tensors(model)}


def tensors(model):
    return [*model.named_parameters(), *model.named_buffers()]


def plan_of(backend, recipe):
    compilers = {} if backend == NAME else compilers_of([Backend(backend)])
    return make_plan({backend: recipe}, compilers, with_kernels=True)


def results(function):
    """Return the results of some calls in a row."""
    return [tree_map(torch.clone, function(*SAMPLES[index % len(SAMPLES)])) for index in range(CALLS)]


def errors(got, want):
    """Yield call, name and largest error relative to the largest magnitude."""
    for call, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        for name, value in theirs.items():
            yield call, name, float((mine[name] - value).abs().max() / value.abs().max())


@pytest.mark.parametrize("network", [Forms, Stateful])
@pytest.mark.parametrize(("backend", "recipe"), recipes())
def test_every_write_is_kept_and_the_model_stays_as_it_is(network, backend, recipe):
    model, exported, wanted, before = case(network)
    plan = plan_of(backend, recipe)
    calibration = SAMPLES if any(one.method.calibrates for one in recipes_of(plan)) else None
    program = quantize_model(exported, plan, calibration).program
    assert [name for name, value in tensors(model) if not torch.equal(value, before[name])] == []
    with torch.no_grad():
        got = results(program.module(check_guards=False))
    bound = BOUNDS.get(recipe, 0.05)
    wrong = [row for row in errors(got, wanted) if row[2] > bound]
    assert [row for row in wrong if row[0] < SHOWN or row[1] in COUNTERS] == []


class Forgetful(Quantizer):
    """A quantizer of a user, which knows nothing of state: it rounds the input and the result of each sum."""

    def annotate(self, model):
        spec = QuantizationSpec(torch.int8, MinMaxObserver, -128, 127, torch.per_tensor_affine, is_dynamic=False)
        for node in calls(model, torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor):
            inputs = {source: spec for source in node.all_input_nodes if source.meta["val"].is_floating_point()}
            node.meta["quantization_annotation"] = QuantizationAnnotation(inputs, spec, _annotated=True)
        return model

    def validate(self, model):
        pass


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(4, 8))

    def forward(self, x):
        self.n.add_(1)
        y = x * 1.0
        y[:, :4].add_(x[:, 4:])
        return y + self.n


def test_a_quantizer_of_a_user_in_a_recipe_of_the_compatibility_layer_loses_no_write():
    from edgecore.executorch.export.export import ExportRecipe, QuantizationRecipe, export

    model, inputs = Counting().eval(), (torch.randn(4, 8, generator=torch.Generator().manual_seed(0)),)
    session = export(model, [inputs] * 6, ExportRecipe(quantization_recipe=QuantizationRecipe([Forgetful()])))
    assert not model.n.any()
    program = edgecore.load(session.get_pte_buffer())
    for _ in range(3):
        torch.testing.assert_close(torch.as_tensor(program.forward(*inputs)), model(*inputs), atol=0.15, rtol=0)


def test_compare_and_the_warning_look_at_several_calls_and_at_the_model_of_the_user():
    pytest.importorskip("edgecore_xnnpack")
    model, inputs = Late().eval(), (torch.ones(2, 8),)
    with pytest.warns(QuantizationWarning, match="output 0"):
        program = edgecore.compile(model, inputs, backends="xnnpack", quantize="int8", calibration=[inputs])
    with pytest.warns(QuantizationWarning):
        comparison = program.compare(model)
    assert comparison.rows[0].eager.sqnr < 10 and "from the model itself forward, output 0 has" in comparison.verdict
    assert not model.s.any()


class Late(nn.Module):
    """A model whose state leaves the range that one sample shows."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)
        self.register_buffer("s", torch.zeros(2, 8))

    def forward(self, x):
        self.s.copy_(self.s * 8 + x)
        return self.layer(x) + self.s


def test_a_script_that_quantizes_an_in_place_model_itself_is_warned():
    xnnpack = pytest.importorskip("edgecore_xnnpack.quantizer")
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    x = torch.randn(4, 8)
    quantizer = xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config())
    exported = torch.export.export(Counting().eval(), (x,))
    with pytest.warns(QuantizationWarning, match=r"torchao loses the write of aten.add_.Tensor .*run_decompositions"):
        prepare_pt2e(exported.module(), quantizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error", QuantizationWarning)
        prepare_pt2e(exported.run_decompositions({}).module(), quantizer)


class Accumulating(nn.Module):
    """A model that writes its input."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(x)
        x.add_(1)
        return y + x


def test_calibration_and_reports_leave_samples_as_they_are():
    pytest.importorskip("edgecore_xnnpack")
    model, samples = Accumulating().eval(), [torch.ones(2, 8), torch.zeros(2, 8)]
    program = edgecore.compile(model, (samples[0],), backends="xnnpack", quantize="int8", calibration=samples)
    assert all(row.sqnr > 30 for row in program.report(quantization=True).quantization)
    assert samples[0].eq(1).all() and samples[1].eq(0).all()


class Normed(nn.Module):
    """A network to train with batch norms, in-place operators, a write through a view and state."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        y = torch.relu_(self.norm(self.conv(x))).mean((2, 3))
        y[:, :4].mul_(3)
        self.seen.copy_(y.detach()[0])
        return self.head(y)


@pytest.mark.slow
def test_training_keeps_writes_and_folds_batch_norms():
    pytest.importorskip("edgecore_xnnpack")
    model, images = Normed(), torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    prepared = edgecore.prepare_qat(model, (images,), backends="xnnpack")
    for _ in range(3):
        prepared(images).sum().backward()
    with torch.no_grad():
        wanted = copy.deepcopy(model).eval()(images)
    program = edgecore.compile(prepared, (images,), backends="xnnpack")
    assert program.report().delegates == {"XnnpackBackend": 1}
    got = torch.as_tensor(edgecore.load(program.buffer).forward(images))
    assert (got - wanted).abs().max() < 0.1 * wanted.abs().max()


class Mixed(nn.Module):
    """Layers of all kinds that recipes rewrite: a convolution with batch norm, a table, attention and a recurrent layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.conv, self.norm = nn.Embedding(64, 32), nn.Conv1d(32, 32, 3, padding=1), nn.BatchNorm1d(32)
        self.attention, self.memory = nn.MultiheadAttention(32, 2, batch_first=True), nn.GRU(32, 32, batch_first=True)
        self.head = nn.Linear(32, 64)
        self.head.weight = self.words.weight

    def forward(self, x):
        y = torch.relu_(self.norm(self.conv(self.words(x).transpose(1, 2)))).transpose(1, 2)
        y = y + self.attention(y, y, y, need_weights=False)[0]
        return self.head(self.memory(y)[0])


WORDS = torch.randint(0, 64, (1, 6), generator=torch.Generator().manual_seed(0))


def compile_(model, inputs, backend, recipe):
    plan = plan_of(backend, recipe)
    calibration = [inputs] if any(one.method.calibrates for one in recipes_of(plan)) else None
    backends, runtime = ([], EDGECORE) if backend == NAME else ([backend], EXECUTORCH_1_5)
    return edgecore.compile(model, inputs, backends=backends, runtime=runtime, quantize=recipe, calibration=calibration)


@pytest.mark.parametrize(("backend", "recipe"), recipes())
def test_compile_leaves_parameters_and_buffers_bit_equal(backend, recipe):
    model = Mixed().eval()
    before = {name: value.detach().clone() for name, value in tensors(model)}
    compile_(model, (WORDS,), backend, recipe)
    assert [name for name, value in tensors(model) if not torch.equal(value, before[name])] == []


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::edgecore.errors.QuantizationWarning")
@pytest.mark.parametrize("name", ["unet", "speech_lstm"])
@pytest.mark.parametrize(("backend", "recipe"), recipes())
def test_compile_leaves_whole_networks_bit_equal(name, backend, recipe):
    model, inputs = zoo.make(name)
    before = {key: value.detach().clone() for key, value in tensors(model)}
    compile_(model, inputs, backend, recipe)
    assert [key for key, value in tensors(model) if not torch.equal(value, before[key])] == []
