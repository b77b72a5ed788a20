"""`external_data` for quantized weights: patterns name the parameters of the model, and programs share a base."""

import warnings

import pytest
import torch
from torch import nn

import edgecore
from edgecore import format as fmt
from edgecore.errors import CompileError

WIDTH, LAYERS = 128, 4
X = torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(0))


class Base(nn.Module):
    def __init__(self, adapter=None):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        if adapter is not None:
            torch.manual_seed(adapter)
            self.lora = nn.ModuleList(nn.Linear(WIDTH, 4, bias=False) for _ in range(LAYERS))
            self.up = nn.ModuleList(nn.Linear(4, WIDTH, bias=False) for _ in range(LAYERS))
        self.adapter = adapter

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            y = layer(x)
            x = torch.relu(y if self.adapter is None else y + self.up[index](self.lora[index](x)))
        return x


def compiled(model, backend, recipe, external):
    calibration = [X] if recipe == "int8" else None
    backends = [] if backend == "kernels" else [backend]
    runtime = fmt.EDGECORE if backend == "kernels" else fmt.EXECUTORCH_1_5
    return edgecore.compile(
        model.eval(), (X,), backends=backends, runtime=runtime, quantize=recipe, calibration=calibration,
        external_data=external,
    )  # fmt: skip


def outside(program):
    return {name: sum(len(bytes(entry.data)) for entry in ptd.entries.values()) for name, ptd in program.data.items()}


CASES = [
    *(("xnnpack", recipe) for recipe in ("int8", "int8-dynamic", "int8-weights", "int4-weights", "fp16")),
    *(("vulkan", recipe) for recipe in ("int8", "int8-weights", "int4-weights", "fp16")),
    ("kernels", "int8"),
]


@pytest.mark.parametrize(("backend", "recipe"), CASES)
def test_a_pattern_names_the_parameter_and_its_integers_follow(backend, recipe):
    if backend != "kernels":
        pytest.importorskip(f"edgecore_{backend}")
    bytes_of = {"int4-weights": 0.5, "fp16": 2.0}.get(recipe, 1.0) * WIDTH**2
    whole = compiled(Base(), backend, recipe, False)
    program = compiled(Base(), backend, recipe, {"layers.1.weight": "w"})
    assert set(program.data) == {"w"}
    assert (
        bytes_of <= outside(program)["w"] < 1.6 * bytes_of
    )  # with scales, of which there is one in 32 integers of 4 bits
    assert len(whole.buffer) - len(program.buffer) > 0.9 * bytes_of
    loaded = edgecore.load(program.buffer, data=[fmt.write_ptd(program.data["w"])])
    torch.testing.assert_close(
        torch.as_tensor(loaded.forward(X)), torch.as_tensor(edgecore.load(whole.buffer).forward(X))
    )


def test_three_programs_share_a_quantized_base(tmp_path):
    pytest.importorskip("edgecore_xnnpack")
    models = {"base": Base(), "a": Base(1), "b": Base(2)}
    for name, model in models.items():
        patterns = {"layers.*": "foundation"} if name == "base" else {"lora.*": name, "up.*": name, "*": "foundation"}
        program = compiled(model, "xnnpack", "int8-dynamic", patterns)
        assert len(program.buffer) < 20 * 1024
        sizes = outside(program)
        assert LAYERS * WIDTH**2 < sizes["foundation"] < 1.1 * LAYERS * WIDTH**2
        if name != "base":
            assert sizes[name] < 1.5 * LAYERS * 2 * 4 * WIDTH
        folder = tmp_path / name
        folder.mkdir()
        program.save(folder / f"{name}.pte")
    foundation = tmp_path / "base" / "foundation.ptd"
    for name, model in models.items():
        data = [foundation, *([] if name == "base" else [tmp_path / name / f"{name}.ptd"])]
        with torch.no_grad():
            wanted = model.eval()(X)
        got = torch.as_tensor(edgecore.load(tmp_path / name / f"{name}.pte", data=data).forward(X))
        assert (got - wanted).abs().max() < 0.05 * wanted.abs().max()


@pytest.mark.parametrize("recipe", [None, "int8-dynamic"])
def test_a_pattern_that_matches_nothing_is_an_error_that_lists_near_names(recipe):
    pytest.importorskip("edgecore_xnnpack")
    with pytest.raises(CompileError, match=r"'layer.1.weight' matches no weight of the program; .* layers.1.weight"):
        compiled(Base(), "xnnpack", recipe, {"layer.1.weight": "w"})


def test_weights_in_the_blob_of_a_backend_are_an_error():
    pytest.importorskip("edgecore_openvino")
    with pytest.raises(CompileError, match=r"matches only weights that the backend OpenvinoBackend keeps in its own"):
        compiled(Base(), "openvino", "int8-weights", {"layers.1.weight": "w"})


@pytest.mark.parametrize("backend", ["xnnpack", "vulkan", "openvino", "vgf", "qnn", "coreml", "ethosu"])
def test_weights_move_or_one_warning_names_the_backend_that_keeps_them(backend):
    pytest.importorskip(f"edgecore_{backend}")
    model, x = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)).eval(), torch.randn(2, 32)
    options = {"quantize": "int8", "calibration": [x]} if backend == "ethosu" else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = edgecore.compile(model, (x,), backends=[backend], external_data="w", **options)
    messages = [warning for warning in caught if "external_data" in str(warning.message)]
    if backend in ("xnnpack", "vulkan"):
        assert outside(program)["w"] >= 4 * sum(parameter.numel() for parameter in model.parameters())
        assert not messages
    else:
        (message,) = messages
        assert message.filename == __file__
        (name,) = program.report().delegates
        assert str(message.message).startswith(
            f"external_data: 4 weights, such as 0.weight, cannot leave the .pte, because {name} keeps weights in the blob"
        )


def test_only_the_weights_that_stay_are_counted():
    pytest.importorskip("edgecore_vgf")
    model = nn.Sequential(nn.Embedding(10, 16), nn.Linear(16, 8)).eval()  # VGF takes no embedding
    with pytest.warns(UserWarning, match="2 weights, such as 1.weight, cannot leave"):
        program = edgecore.compile(model, (torch.tensor([[1, 2]]),), backends=["vgf"], external_data={"*": "w"})
    assert outside(program)["w"] == 640
