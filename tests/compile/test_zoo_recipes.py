"""Whole networks in every recipe: the runtime gives what quantized eager gives, as far as roundings explain."""

from importlib.util import find_spec

import pytest
import zoo

import edgecore
from edgecore import Recipe

pytest.importorskip("edgecore_xnnpack")
pytestmark = pytest.mark.full


def make(name):
    """Make a network and its inputs; skip the test if the package of the network is not installed."""
    package = {"unet": "torch", "speech_lstm": "torch", "bert_mini": "transformers"}.get(name, "torchvision")
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    return zoo.make(name)


@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic", "int4-weights", "fp16"])
@pytest.mark.parametrize("name", zoo.ALL)
def test_outputs_are_those_of_quantized_eager(name, recipe):
    model, inputs = make(name)
    calls = [inputs, zoo.other_inputs(inputs)]
    calibration = calls if recipe == "int8" else None
    program = edgecore.compile(model, inputs, backends=["xnnpack"], quantize=recipe, calibration=calibration)
    found = program.compare(model, calls)
    assert found.ok, found


SMALLEST = ("unet", "speech_lstm", "squeezenet1_0")
ENDS = {
    "xnnpack": [
        Recipe("int8", weights="tensor"),
        Recipe("int8", symmetric=True),
        Recipe("int8", observer="minmax"),
        Recipe("int8", observer="moving-average"),
        Recipe("int8-dynamic", weights="tensor"),
        Recipe("int8-weights"),
        Recipe("int8-weights", activations="dynamic"),
        Recipe("int4-weights", group=64),
        Recipe("int4-weights", group=128),
        Recipe("int4-weights", weights="channel"),
        Recipe("int4-weights", weights="channel", activations="none"),
    ],
    "openvino": [
        Recipe("int8"),
        Recipe("int8", weights="tensor"),
        Recipe("int8", symmetric=True),
        Recipe("int8", observer="minmax"),
        Recipe("int8", observer="moving-average"),
    ],
}


@pytest.mark.parametrize("name", SMALLEST)
@pytest.mark.parametrize(("backend", "recipe"), [(name, recipe) for name in ENDS for recipe in ENDS[name]], ids=repr)
def test_outputs_of_recipes_with_parameters_are_those_of_quantized_eager(name, backend, recipe):
    pytest.importorskip(f"edgecore_{backend}")
    model, inputs = make(name)
    calls = [inputs, zoo.other_inputs(inputs)]
    calibration = calls if recipe.name == "int8" else None
    program = edgecore.compile(model, inputs, backends=[backend], quantize=recipe, calibration=calibration)
    found = program.compare(model, calls)
    assert found.ok, found
